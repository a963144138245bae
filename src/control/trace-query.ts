import { DriveError } from '../domain/errors.ts'
import type { TraceFilter } from './protocol.ts'

/** A filter as the query of `POST /trace`. */
export function toTraceQuery(filter: TraceFilter): string {
  const { operations, path, pid, slowMs, without } = filter
  const query = new URLSearchParams(operations.map((each): [string, string] => ['op', each]))
  if (path !== undefined) query.set('path', path)
  for (const [key, value] of Object.entries({ pid, slow: slowMs, without })) {
    if (value !== undefined) query.set(key, String(value))
  }
  return query.toString()
}

/** The filter that a query stands for; throws `usage`. */
export function fromTraceQuery(query: URLSearchParams): TraceFilter {
  const path = query.get('path')
  return {
    operations: query.getAll('op'),
    ...(path === null ? {} : { path }),
    ...numberIn(query, 'pid', 'pid'),
    ...numberIn(query, 'slow', 'slowMs'),
    ...numberIn(query, 'without', 'without'),
  }
}

function numberIn<Key extends keyof TraceFilter>(
  query: URLSearchParams,
  name: string,
  key: Key,
): Partial<Record<Key, number>> {
  const text = query.get(name)
  if (text === null) return {}
  const value = text === '' ? NaN : Number(text)
  if (!(value >= 0)) throw new DriveError('usage', `"${text}" is no number for ${name}.`)
  return { [key]: value } as Record<Key, number>
}
