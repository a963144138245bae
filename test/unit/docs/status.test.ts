import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { driveStatus } from '../../../src/control/protocol.ts'

interface Schema {
  readonly type?: unknown
  readonly items?: Schema
  readonly properties?: Readonly<Record<string, Schema>>
}

/** The top field of each field, and its own name: `outbox`, `failure`, `tries`. */
function fieldsOf(schema: Schema, top = ''): readonly (readonly [string, string])[] {
  if (schema.items !== undefined) return fieldsOf(schema.items, top)
  return Object.entries(schema.properties ?? {}).flatMap(([name, inner]) => {
    const place = top === '' ? name : top
    return [[place, name] as const, ...fieldsOf(inner, place)]
  })
}

/** The rows of the table, by the top field that they are of. */
function rowsOf(text: string): ReadonlyMap<string, string> {
  const rows = new Map<string, string>()
  for (const line of text.split('\n')) {
    const [, field] = /^\| `(\w+)/.exec(line) ?? []
    if (field !== undefined) rows.set(field, `${rows.get(field) ?? ''}${line}\n`)
  }
  return rows
}

describe('docs/STATUS.md', () => {
  const rows = rowsOf(readFileSync('docs/STATUS.md', 'utf8'))
  const fields = fieldsOf(z.toJSONSchema(driveStatus, { io: 'input' }) as Schema)
  const others = new Map([['account', 'service']])

  it('tells of each field of the status', () => {
    expect(fields.length).toBeGreaterThan(70)
    const missing = fields.filter(([top, name]) => {
      if (name === top && rows.has(top)) return false
      const row = rows.get(top) ?? rows.get(others.get(top) ?? '') ?? ''
      return !new RegExp(`[\`.]${name}(\\[\\])?\``).test(row)
    })
    expect(missing).toEqual([])
  })

  it('tells of no field that there is not', () => {
    const known = new Set(fields.map(([top]) => top))
    expect([...rows.keys()].filter((field) => !known.has(field))).toEqual([])
  })
})
