import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { readOutbox } from '../../../src/outbox/read-outbox.ts'

let dir: string
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'bagfs-outbox-'))
})
afterEach(() => {
  rmSync(dir, { recursive: true, force: true })
})

const ID = '0000000000000000'
const intent = (number: number, more: object = {}): string =>
  JSON.stringify({
    version: 1,
    kind: 'delete',
    id: `${ID}${number}`,
    name: `n${number}`,
    phase: 'waiting',
    createdAtMs: 1,
    replaces: [],
    supersedes: [],
    ...more,
  })

function place(path: string, text?: string): void {
  mkdirSync(join(dir, path), { recursive: true })
  if (text !== undefined) writeFileSync(join(dir, path, 'intent.json'), text)
}

it('an outbox is read as it is: intents of all layouts in order, and nothing is changed', async () => {
  place(`v2/${ID}3`, `${intent(3, { name: 'as it was' })}\n${intent(3)}\n`)
  place(`v1/${ID}2`, intent(2))
  place(`v1/${ID}4`)
  place(`v1/${ID}5`, '{"version": 1')
  place(`v1/${ID}6`, intent(6, { phase: 'held' }))
  place(`v1/damaged-${ID}7`, '?')
  place(`${ID}1`, intent(1, { version: 0 }))
  const before = readdirSync(dir, { recursive: true })
  const outbox = await readOutbox(dir)
  const { intents, damaged } = outbox
  expect(intents.map(({ name }) => name)).toEqual(['n1', 'n2', 'n3'])
  expect(damaged).toEqual([join(dir, `v1/${ID}5`), join(dir, `v1/damaged-${ID}7`)])
  expect(intents.map(({ id }) => outbox.contentPath(id))).toEqual([
    join(dir, `${ID}1/content`),
    join(dir, `v1/${ID}2/content`),
    join(dir, `v2/${ID}3/content`),
  ])
  expect(readdirSync(dir, { recursive: true })).toEqual(before)
})

it('an outbox that is not there holds nothing, and one of a newer version is refused', async () => {
  expect(await readOutbox(join(dir, 'none'))).toMatchObject({ intents: [], damaged: [] })
  place(`v3/${ID}1`, intent(1))
  await expect(readOutbox(dir)).rejects.toMatchObject({ code: 'unsupported' })
})
