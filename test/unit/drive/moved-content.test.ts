import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { isDriveError } from '../../../src/domain/errors.ts'
import { AccountInProcess } from '../../support/account-in-process.ts'
import type { DriveInProcess } from '../../support/drive-in-process.ts'
import type { Fault } from '../../support/fault-proxy.ts'
import { noiseOf } from '../../support/seed.ts'

const FOLDERS = ['G', 'H', 'K'] as const
const PLACES = ['b', 'c', ...FOLDERS.map((folder) => `${folder}/b`)] as const
/** No compression makes it shorter, so that it is found in a zip as it is. */
const PRECIOUS = noiseOf(96)
const settings = { folderRestMs: 1 }

const UPLOADS = {
  pass: undefined,
  'are refused': { answer: { status: 503, body: '{"detail":"later"}' } },
  'lose their answer': { loseAnswer: true },
  'are cut': { cutRequestAfter: 300 },
} as const satisfies Readonly<Record<string, Fault | undefined>>

type Step =
  | { readonly do: 'move'; readonly to: (typeof PLACES)[number] }
  | { readonly do: 'add' | 'remove'; readonly folder: (typeof FOLDERS)[number] }
  | { readonly do: 'uploads'; readonly how: keyof typeof UPLOADS }
  | { readonly do: 'sync' | 'kill' }

const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 5, arbitrary: fc.record({ do: fc.constant('move'), to: fc.constantFrom(...PLACES) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constantFrom('add', 'remove'),
      folder: fc.constantFrom(...FOLDERS),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('uploads'),
      how: fc.constantFrom('pass', 'are refused', 'lose their answer', 'are cut'),
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constantFrom('sync', 'kill') }) },
)

/** Fails with an error of the drive, or does not. */
async function tried(work: Promise<unknown>): Promise<void> {
  try {
    await work
  } catch (error) {
    if (!isDriveError(error)) throw error
  }
}

/** A person who moves one file about, while the service and the machine fail. */
class Mover {
  readonly #account: AccountInProcess
  #drive: DriveInProcess
  #place = 'G/b'

  private constructor(account: AccountInProcess, drive: DriveInProcess) {
    this.#account = account
    this.#drive = drive
  }

  static async start(): Promise<Mover> {
    const account = await AccountInProcess.start()
    const drive = await account.open({ settings })
    for (const folder of FOLDERS) await drive.makeDirectory(folder)
    await drive.write('G/b', PRECIOUS)
    await drive.drain()
    return new Mover(account, drive)
  }

  async take(step: Step): Promise<void> {
    if (step.do === 'move') await this.#move(step.to)
    else if (step.do === 'add') await tried(this.#drive.write(`${step.folder}/other`, step.folder))
    else if (step.do === 'remove') await tried(this.#drive.remove(`${step.folder}/other`))
    else if (step.do === 'uploads') this.#uploads(UPLOADS[step.how])
    else if (step.do === 'sync') await tried(this.#drive.drive.commands.sync())
    else await this.#kill()
  }

  async #move(to: string): Promise<void> {
    if (to === this.#place) return
    await this.#drive.rename(this.#place, to)
    this.#place = to
  }

  #uploads(fault: Fault | undefined): void {
    this.#account.service.proxy.clear()
    if (fault !== undefined) this.#account.service.proxy.add({ match: { method: 'POST' }, fault })
  }

  async #kill(): Promise<void> {
    await this.#drive.drop()
    this.#drive = await this.#account.open({ settings })
  }

  /** Where the service has the content: names of files and folders. */
  async stored(): Promise<readonly string[]> {
    for (;;) {
      try {
        return await this.#look()
      } catch (error) {
        // A bag went between the listing and the look at it: what took its place is in the next listing.
        if (!String(error).includes(': 404 ')) throw error
      }
    }
  }

  async #look(): Promise<readonly string[]> {
    const { service } = this.#account
    const names: string[] = []
    for (const { filename, bag_id } of await service.list()) {
      if ((await service.content(bag_id)).includes(PRECIOUS)) names.push(filename)
    }
    return names
  }

  /** With a service that answers, all is where it was moved to, and nowhere else. */
  async end(): Promise<void> {
    this.#uploads(undefined)
    for (const { id, failure } of this.#drive.outbox.intents()) {
      if (failure !== undefined) await this.#drive.drive.uploader.retry(id)
    }
    await expect.poll(() => this.#drive.drive.commands.sync().then(() => true, String)).toBe(true)
    expect(await this.stored()).toEqual([this.#place.replace(/\/b$/, '')])
    expect(await this.#drive.read(this.#place)).toBe(PRECIOUS.toString())
    await this.#drive.drop()
  }
}

describe('content that moves about', () => {
  it('is at the service at each moment, whatever fails', { timeout: 600_000 }, async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 4, maxLength: 14 }), async (steps) => {
        const mover = await Mover.start()
        for (const each of steps) {
          await mover.take(each)
          expect(await mover.stored()).not.toEqual([])
        }
        await mover.end()
      }),
      { numRuns: Number(process.env['BAGFS_MOVE_RUNS'] ?? 25) },
    )
  })
})
