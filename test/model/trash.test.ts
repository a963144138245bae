import { readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { Open } from 'unzipper'
import { isDriveError } from '../../src/domain/errors.ts'
import { DriveInProcess } from '../support/drive-in-process.ts'
import { ModelAccounts } from '../support/model-accounts.ts'
import { SEED } from '../support/seed.ts'

const RUNS = Math.ceil(Number(process.env['BAGFS_MODEL_RUNS'] ?? 1_000) / 4)

type Step =
  | { readonly kind: 'write' | 'make' | 'remove'; readonly path: string }
  | { readonly kind: 'rename'; readonly path: string; readonly to: string }
  | { readonly kind: 'restore'; readonly which: number; readonly path: string }
  | { readonly kind: 'drain' | 'kill' }

const name = fc.constantFrom('a', 'b', 'c')
/** Two files in three are in the root: what moves from there is a bag of its own. */
const path = fc.oneof(
  { weight: 4, arbitrary: name },
  { weight: 2, arbitrary: fc.tuple(name, name).map((names) => names.join('/')) },
  { weight: 1, arbitrary: fc.tuple(name, name, name).map((names) => names.join('/')) },
)
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 5, arbitrary: fc.record({ kind: fc.constant('write' as const), path }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('make' as const), path }) },
  { weight: 9, arbitrary: fc.record({ kind: fc.constant('rename' as const), path, to: path }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('remove' as const), path }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('restore' as const), which: fc.nat(3), path: name }),
  },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('drain' as const) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('kill' as const) }) },
)

let accounts: ModelAccounts
beforeAll(async () => {
  accounts = await ModelAccounts.start(RUNS)
})
afterAll(() => accounts.close())

/** A machine of an account, and what the account has ever held. */
class Machine {
  readonly stored = new Set<string>()
  readonly #home: Parameters<typeof DriveInProcess.open>[0]
  #user: DriveInProcess
  #written = 0

  private constructor(home: Parameters<typeof DriveInProcess.open>[0], user: DriveInProcess) {
    this.#home = home
    this.#user = user
  }

  static async start(number: number, writeBack: boolean): Promise<Machine> {
    const home = { ...accounts.home(number), writeBack, settings: { folderRestMs: 60_000 } }
    return new Machine(home, await DriveInProcess.open(home))
  }

  /** A step that does not apply is left out. */
  async take(each: Step): Promise<void> {
    try {
      await this.#take(each)
    } catch (error) {
      if (!isDriveError(error)) throw error
    }
  }

  async #take(each: Step): Promise<void> {
    const user = this.#user
    switch (each.kind) {
      case 'write':
        this.#written += 1
        await user.write(each.path, `content ${this.#written}.`)
        return
      case 'make':
        await user.makeDirectory(each.path)
        return
      case 'rename':
        await user.rename(each.path, each.to)
        return
      case 'remove':
        await user.remove(each.path)
        return
      case 'restore': {
        const item = user.drive.commands.trash.items()[each.which]
        if (item !== undefined)
          await user.drive.commands.trash.restore(item.bagId, { name: each.path })
        return
      }
      case 'drain':
        await this.drain()
        return
      case 'kill':
        await user.drop()
        this.#user = await DriveInProcess.open(this.#home)
    }
  }

  /** All that shows then is what the account holds. */
  async drain(): Promise<readonly string[]> {
    await this.#user.drain()
    const shown = Object.values(await this.#user.tree()).filter((content) => content !== null)
    for (const content of shown) this.stored.add(content)
    return shown
  }

  /** Contents of the files in the trash, those in zips of folders too. */
  async kept(): Promise<readonly string[]> {
    const trash = join(this.#home.dir, 'trash', 'v1')
    const found: string[] = []
    for (const { bagId, isFolder } of this.#user.drive.commands.trash.items()) {
      const file = readdirSync(trash).find(
        (each) => each.startsWith(bagId) && !each.endsWith('.json'),
      )
      const bytes = readFileSync(join(trash, file ?? ''))
      if (!isFolder) found.push(bytes.toString())
      else {
        const { files } = await Open.buffer(bytes)
        for (const each of files) found.push((await each.buffer()).toString())
      }
    }
    return found
  }

  async end(): Promise<void> {
    await this.#user.drop()
    rmSync(this.#home.dir, { recursive: true, force: true })
  }
}

it(
  `nothing that was stored is nowhere (${RUNS} runs, seed ${SEED})`,
  { timeout: 1_800_000 },
  async () => {
    let number = 0
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { minLength: 20, maxLength: 50 }),
        fc.boolean(),
        async (steps, writeBack) => {
          const machine = await Machine.start(number, writeBack)
          number += 1
          try {
            for (const each of steps) await machine.take(each)
            const shown = await machine.drain()
            const kept = await machine.kept()
            const lost = [...machine.stored].filter(
              (content) => !shown.includes(content) && !kept.includes(content),
            )
            expect(lost).toEqual([])
          } finally {
            await machine.end()
          }
        },
      ),
      { seed: SEED, numRuns: RUNS, endOnFailure: RUNS > 100 },
    )
  },
)
