import { rmSync } from 'node:fs'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { isDriveError } from '../../src/domain/errors.ts'
import { DriveInProcess, type DriveHome } from '../support/drive-in-process.ts'
import { ModelAccounts } from '../support/model-accounts.ts'
import { SEED } from '../support/seed.ts'
import { turns } from '../support/turns.ts'

const RUNS = Math.ceil(Number(process.env['BAGFS_MODEL_RUNS'] ?? 1_000) / 10)
const FILES = [0, 1, 2] as const
const DIRECTORIES = ['', 'F/', 'G/', 'G/sub/'] as const

type FileNumber = (typeof FILES)[number]

/** Turns of the event loop before each part of a step. */
const ahead = fc.nat(6)
const write = fc.record({
  file: fc.constantFrom(...FILES),
  truncate: fc.boolean(),
  before: ahead,
  opened: ahead,
  written: ahead,
})
const move = fc.record({
  file: fc.constantFrom(...FILES),
  to: fc.constantFrom(...DIRECTORIES),
  before: ahead,
})
const many = { minLength: 3, maxLength: 8 }
const programs = fc.record({
  writers: fc.tuple(fc.array(write, many), fc.array(write, many)),
  moves: fc.array(move, many),
  writeBack: fc.boolean(),
  isKilled: fc.boolean(),
})
type Write = typeof write extends fc.Arbitrary<infer One> ? One : never
type Move = typeof move extends fc.Arbitrary<infer One> ? One : never
type Programs = typeof programs extends fc.Arbitrary<infer One> ? One : never

let accounts: ModelAccounts
beforeAll(async () => {
  accounts = await ModelAccounts.start(RUNS)
})
afterAll(() => accounts.close())

/** What the programs know of their files. */
class Files {
  /** Each where the last rename that succeeded put it. */
  readonly places = new Map<FileNumber, string>(FILES.map((file) => [file, `file${file}`]))
  /** What a file may hold: several where a write failed half way. */
  readonly contents = new Map<FileNumber, readonly string[]>()
  /** A rename that fails as busy may leave a copy at the new place. */
  readonly copies = new Set<string>()
  #written = 0
  #moved = 0

  placeOf(file: FileNumber): string {
    return this.places.get(file) ?? ''
  }

  /** All are of one length, so that each covers the one before. */
  nextContent(): string {
    this.#written += 1
    return `content ${1_000 + this.#written}`
  }

  nextName(directory: string): string {
    this.#moved += 1
    return `${directory}moved${this.#moved}`
  }
}

function orRefused(error: unknown): undefined {
  if (!isDriveError(error)) throw error
}

async function writeOnce(user: DriveInProcess, files: Files, each: Write): Promise<void> {
  const { file, truncate } = each
  await turns(each.before)
  const node = await user.node(files.placeOf(file)).catch(orRefused)
  if (node === undefined) return
  const handle = await user.drive.open(node, { writable: true, truncate }).catch(orRefused)
  if (handle === undefined) return
  const before = files.contents.get(file) ?? []
  const content = files.nextContent()
  try {
    await turns(each.opened)
    await user.drive.write(handle, Buffer.from(content), 0)
    await turns(each.written)
    await user.drive.flush(handle)
    files.contents.set(file, [content])
  } catch (error) {
    orRefused(error)
    files.contents.set(file, [...before, content, ''])
  } finally {
    await user.drive.release(handle).catch(orRefused)
  }
}

async function moveOnce(user: DriveInProcess, files: Files, each: Move): Promise<void> {
  await turns(each.before)
  const to = files.nextName(each.to)
  try {
    await user.rename(files.placeOf(each.file), to)
    files.places.set(each.file, to)
  } catch (error) {
    orRefused(error)
    files.copies.add(to)
  }
}

/** Two programs that write, each its own files, and one that moves them: all at the same time. */
async function runPrograms(user: DriveInProcess, given: Programs): Promise<Files> {
  const files = new Files()
  for (const path of ['F', 'G', 'G/sub']) await user.makeDirectory(path)
  for (const file of FILES) {
    const content = files.nextContent()
    await user.write(files.placeOf(file), content)
    files.contents.set(file, [content])
  }
  const inTurn = async <Each>(all: readonly Each[], task: (each: Each) => Promise<void>) => {
    for (const each of all) await task(each)
  }
  const writers = given.writers.map((all, writer) =>
    inTurn(
      all.filter(({ file }) => file % 2 === writer),
      (each) => writeOnce(user, files, each),
    ),
  )
  await Promise.all([...writers, inTurn(given.moves, (each) => moveOnce(user, files, each))])
  return files
}

function check(tree: Record<string, string | null>, files: Files): void {
  for (const file of FILES) {
    const place = files.placeOf(file)
    expect(files.contents.get(file), place).toContain(tree[place])
  }
  const places = new Set([...files.places.values(), ...files.copies])
  const others = Object.keys(tree).filter((path) => tree[path] !== null && !places.has(path))
  expect(others).toEqual([])
}

it(
  `what programs close is where it was moved to (${RUNS} runs, seed ${SEED})`,
  { timeout: 1_800_000 },
  async () => {
    let number = 0
    await fc.assert(
      fc.asyncProperty(programs, async (given) => {
        const at = accounts.home(number)
        number += 1
        const { writeBack } = given
        const home: DriveHome = { ...at, writeBack, settings: { folderRestMs: 60_000 } }
        let user = await DriveInProcess.open(home)
        try {
          const files = await runPrograms(user, given)
          if (given.isKilled) {
            await user.drop()
            user = await DriveInProcess.open(home)
          }
          check(await user.tree(), files)
          expect(user.outbox.damaged()).toEqual([])
          await user.drain()
          check(await user.tree(), files)
          await user.drop()
          // Another machine sees what the service has.
          user = await DriveInProcess.open({ ...home, dir: `${home.dir}-other` })
          check(await user.tree(), files)
        } finally {
          await user.drop()
          for (const each of [home.dir, `${home.dir}-other`])
            rmSync(each, { recursive: true, force: true })
        }
      }),
      { seed: SEED, numRuns: RUNS, endOnFailure: RUNS > 100 },
    )
  },
)
