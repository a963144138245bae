import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { systemClock } from '../../../src/domain/clock.ts'
import type { IntentId } from '../../../src/domain/ids.ts'
import { silentLogger } from '../../../src/domain/logger.ts'
import { Outbox } from '../../../src/outbox/outbox.ts'
import type { Step } from '../../../src/outbox/steps.ts'

let dir: string
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'bagfs-layout-'))
})
afterEach(() => {
  rmSync(dir, { recursive: true, force: true })
})

const toId = (number: number): IntentId => String(number).padStart(17, '0') as IntentId
const open = (onStep?: (step: Step) => void): Promise<Outbox> =>
  Outbox.open(
    { clock: systemClock, log: silentLogger, ...(onStep === undefined ? {} : { onStep }) },
    { dir },
  )

/** A put as layout 0 had it. */
const OLDER = {
  kind: 'put',
  phase: 'waiting',
  createdAtMs: 1,
  replaces: [],
  description: '',
  mode: 0o644,
  mtimeMs: 1,
  content: { from: 'staged', length: 5, sha256: 'ab' },
}

function writeEntry(path: string, intent: unknown, content = 'bytes'): void {
  mkdirSync(path, { recursive: true })
  writeFileSync(join(path, 'content'), content)
  if (intent !== undefined) writeFileSync(join(path, 'intent.json'), JSON.stringify(intent))
}

/** An outbox of layout 0: three puts, a draft, a damaged intent, and a person's notes. */
function writeOlder(): void {
  for (const number of [1, 2, 3]) {
    const id = toId(number)
    writeEntry(join(dir, id), { ...OLDER, id, name: `name ${number}` }, `content ${number}`)
  }
  writeEntry(join(dir, toId(4)), undefined)
  writeEntry(join(dir, toId(5)), { half: 'an intent' })
  writeEntry(join(dir, `damaged-${toId(6)}`), { as: 'it was' })
  writeFileSync(join(dir, 'notes'), 'not ours')
}

/** Every file below a directory, with its content. */
function filesIn(path: string): Readonly<Record<string, string>> {
  const files = readdirSync(path, { recursive: true, withFileTypes: true }).filter((each) =>
    each.isFile(),
  )
  return Object.fromEntries(
    files.map((file) => {
      const full = join(file.parentPath, file.name)
      return [full.slice(path.length + 1), readFileSync(full, 'utf8')]
    }),
  )
}

function expectAll(outbox: Outbox): void {
  expect(outbox.intents()).toEqual(
    [1, 2, 3].map((number) => ({
      ...OLDER,
      id: toId(number),
      name: `name ${number}`,
      version: 1,
      supersedes: [],
    })),
  )
  for (const number of [1, 2, 3]) {
    expect(readFileSync(outbox.contentPath(toId(number)), 'utf8')).toBe(`content ${number}`)
  }
  const names = outbox.damaged().map((path) => path.slice(dir.length + 1))
  expect([...names].sort()).toEqual([`v2/damaged-${toId(5)}`, `v2/damaged-${toId(6)}`])
  expect(readdirSync(dir).sort()).toEqual(['notes', 'v2'])
}

describe('an outbox of an older version', () => {
  it('is taken over: every intent with its content, what is damaged too, and no draft', async () => {
    writeOlder()
    expectAll(await open())
    expectAll(await open())
  })

  it.each([1, 2, 3, 4, 5, 6])(
    'is taken over by the next when a process dies after move %i',
    async (last) => {
      writeOlder()
      let moves = 0
      const die = (): void => {
        moves += 1
        if (moves === last) throw new Error('The process died.')
      }
      await expect(open(die)).rejects.toThrow('The process died.')
      expect(moves).toBe(last)
      expectAll(await open())
    },
  )

  it('takes the place of nothing: an id that is there already is set aside', async () => {
    writeOlder()
    const id = toId(1)
    writeEntry(
      join(dir, 'v2', id),
      { ...OLDER, version: 1, supersedes: [], id, name: 'newer' },
      'newer',
    )
    const outbox = await open()
    expect(outbox.get(id)?.name).toBe('newer')
    expect(readFileSync(join(dir, 'v2', `damaged-${id}`, 'content'), 'utf8')).toBe('content 1')
    expect(outbox.damaged()).toContain(join(dir, 'v2', `damaged-${id}`))
  })

  it('is written in the form of this version when an intent changes', async () => {
    writeOlder()
    const outbox = await open()
    await outbox.update(toId(1), (intent) => ({ ...intent, name: 'renamed' }), { durable: true })
    const written = readFileSync(join(dir, 'v2', toId(1), 'intent.json'), 'utf8')
    expect(JSON.parse(written)).toMatchObject({ version: 1, supersedes: [], name: 'renamed' })
  })

  it('of layout 1 is taken over as it was last, also after a power cut, and goes on from there', async () => {
    const at = (number: number): string => join(dir, 'v1', toId(number))
    const name = (number: number, text: string): string =>
      JSON.stringify(
        { ...OLDER, version: 1, supersedes: [], id: toId(number), name: text },
        undefined,
        2,
      )
    for (const number of [1, 2]) writeEntry(at(number), undefined, `content ${number}`)
    writeFileSync(join(at(1), 'intent.json'), `${name(1, 'whole')}\n`)
    writeFileSync(join(at(2), 'intent.json'), '')
    writeFileSync(join(at(2), 'intent.json.5.kept'), `${name(2, 'before')}\n`)
    const outbox = await open()
    const names = (): readonly string[] => outbox.intents().map((intent) => intent.name)
    expect(names()).toEqual(['whole', 'before'])
    expect(readFileSync(outbox.contentPath(toId(2)), 'utf8')).toBe('content 2')
    for (const { id } of outbox.intents()) {
      for (const more of ['+', '-']) {
        await outbox.update(id, (put) => ({ ...put, name: put.name + more }), { durable: true })
      }
    }
    await outbox.close()
    expect((await open()).intents().map((intent) => intent.name)).toEqual(['whole+-', 'before+-'])
    expect(readdirSync(join(dir, 'v1'))).toEqual([])
  })
})

describe('an outbox of a newer version', () => {
  const id = toId(1)
  const newer = { ...OLDER, version: 2, supersedes: [], id, name: 'name' }

  it.each([
    { what: 'layout', path: ['v3', id] },
    { what: 'intent', path: ['v2', id] },
    { what: 'intent in the place of layout 0', path: [id] },
  ])('is refused in one sentence, and not touched ($what)', async ({ path }) => {
    writeEntry(join(dir, ...path), newer)
    // What this version would tidy up stays too.
    writeEntry(join(dir, 'v2', toId(2)), undefined)
    writeEntry(join(dir, 'v2', toId(3)), { half: 'an intent' })
    writeEntry(join(dir, toId(4)), { ...OLDER, id: toId(4), name: 'older' })
    if (path[0] === 'v2') rmSync(join(dir, toId(4)), { recursive: true })
    const before = filesIn(dir)
    await expect(open()).rejects.toMatchObject({
      code: 'unsupported',
      message: expect.stringMatching(/^[^\n]*newer version of bagfs[^.\n]*\.$/) as string,
    })
    expect(filesIn(dir)).toEqual(before)
  })

  it('is no hindrance when nothing waits in it', async () => {
    mkdirSync(join(dir, 'v3'))
    writeEntry(join(dir, 'v2', id), { ...newer, version: 1 })
    expect((await open()).intents()).toHaveLength(1)
  })
})
