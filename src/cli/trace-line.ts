import type { TracedOperation, TraceEvent } from '../control/protocol.ts'
import { toPrintable, toPrintableJson } from '../domain/printable.ts'

/** What is printed of a trace. */
type ShownEvent = Extract<TraceEvent, { type: 'operation' | 'lost' }>

/** A line for people, without its end. */
export function describeTraced(event: ShownEvent): string {
  if (event.type === 'lost') return lostLine(event.count)
  const { atMs, operation, error, bytes, tookMs } = event
  const result = error ?? (bytes === undefined ? 'ok' : `ok ${bytes}`)
  const when = new Date(atMs).toISOString()
  const about = [operation, ...subjectOf(event)].join(' ')
  const told = [result, tookOf(tookMs), ...processOf(event)].join(', ')
  return toPrintable(`${when} ${about}: ${told}`)
}

function lostLine(count: number): string {
  return count === 1 ? '1 operation is not shown.' : `${count} operations are not shown.`
}

function subjectOf({ path, to, offset, size }: TracedOperation): readonly string[] {
  const length = size === undefined ? [] : [offset === undefined ? `to ${size}` : `${size}`]
  return [
    path ?? '-',
    ...(to === undefined ? [] : ['to', to]),
    ...length,
    ...(offset === undefined ? [] : ['at', String(offset)]),
  ]
}

function tookOf(tookMs: number): string {
  return tookMs < 1000 ? `${tookMs.toFixed(2)} ms` : `${(tookMs / 1000).toFixed(2)} s`
}

function processOf({ pid, program }: TracedOperation): readonly string[] {
  if (pid === undefined) return []
  return [program === undefined ? `(${pid})` : `${program} (${pid})`]
}

/** The same as an object of JSON, in one line without its end; docs/GUIDE.md has its fields. */
export function tracedToJson(event: ShownEvent): string {
  if (event.type === 'lost') return toPrintableJson({ lost: event.count }, 0)
  const { atMs, operation, path, to, offset, size, error, bytes, tookMs, pid, program } = event
  const time = new Date(atMs).toISOString()
  const subject = { path, to, offset, size }
  const result = { result: error ?? 'ok', bytes, tookMs: Math.round(tookMs * 1000) / 1000 }
  return toPrintableJson({ time, operation, ...subject, ...result, pid, program }, 0)
}
