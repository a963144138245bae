import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { expect, it, onTestFinished } from 'vitest'
import type { HandleId, NodeId } from '../../../../src/domain/ids.ts'
import { ROOT } from '../../../../src/drive/tree/nodes.ts'
import { TUNING } from '../../../../src/mount/build-drive.ts'
import { DriveInProcess } from '../../../support/drive-in-process.ts'
import { TestService } from '../../../support/mounted-drive.ts'
import { noiseOf } from '../../../support/seed.ts'
import '../../../support/properties.ts'

const NAMES = ['F/a', 'F/b', 'F/c', 'G/a', 'r'] as const
const name = fc.constantFrom(...NAMES)
const size = fc.integer({ min: 0, max: 5_000 })

/** What a program does; `slot` is one of its open files. */
const step = fc.oneof(
  fc.record({ do: fc.constant('open'), name, slot: fc.nat(2), truncate: fc.boolean() }),
  fc.record({ do: fc.constant('write'), slot: fc.nat(2), at: size, size }),
  fc.record({ do: fc.constant('cut'), slot: fc.nat(2), size }),
  fc.record({ do: fc.constant('flush'), slot: fc.nat(2) }),
  fc.record({ do: fc.constant('fsync'), slot: fc.nat(2) }),
  fc.record({ do: fc.constant('close'), slot: fc.nat(2) }),
  fc.record({ do: fc.constant('unlink'), name }),
  fc.record({ do: fc.constant('rename'), name, to: name }),
  fc.record({ do: fc.constant('store') }),
)
type Step = typeof step extends fc.Arbitrary<infer Each> ? Each : never

/** Does steps in a drive, and lets go of everything at the end. */
class Program {
  readonly #user: DriveInProcess
  readonly #open = new Map<number, { readonly node: NodeId; readonly handle: HandleId }>()
  readonly #storing: Promise<unknown>[] = []

  constructor(user: DriveInProcess) {
    this.#user = user
  }

  /** What cannot be done is left out. */
  async run(steps: readonly Step[]): Promise<void> {
    for (const each of steps) await this.#do(each).catch(() => undefined)
    for (const slot of [...this.#open.keys()]) await this.#close(slot).catch(() => undefined)
    await Promise.all(this.#storing)
    for (const path of NAMES) await this.#unlink(path).catch(() => undefined)
    await this.#user.drive.commands.sync()
  }

  async #do(each: Step): Promise<void> {
    const { drive } = this.#user
    if (each.do === 'open') await this.#openFile(each)
    else if (each.do === 'unlink') await this.#unlink(each.name)
    else if (each.do === 'rename') await this.#rename(each.name, each.to)
    // What follows is done while it is under way.
    else if (each.do === 'store') this.#storing.push(drive.commands.sync().catch(() => undefined))
    else await this.#withHandle(each)
  }

  async #withHandle(each: Extract<Step, { slot: number }>): Promise<void> {
    const { drive } = this.#user
    const opened = this.#open.get(each.slot)
    if (opened === undefined) return
    const { handle } = opened
    if (each.do === 'write') await drive.write(handle, Buffer.alloc(each.size, 'x'), each.at)
    else if (each.do === 'cut') await drive.truncateOpen(handle, each.size)
    else if (each.do === 'flush') await drive.flush(handle)
    else if (each.do === 'fsync') await drive.fsync(handle)
    else await this.#close(each.slot)
  }

  async #openFile(each: Extract<Step, { do: 'open' }>): Promise<void> {
    await this.#close(each.slot)
    const { parent, name: last } = await this.#user.parent(each.name)
    const { attributes, handle } = await this.#user.drive.create(parent, last, 0o644)
    this.#open.set(each.slot, { node: attributes.node, handle })
    if (each.truncate) await this.#user.drive.truncateOpen(handle, 0)
  }

  async #close(slot: number): Promise<void> {
    const { handle } = this.#open.get(slot) ?? {}
    this.#open.delete(slot)
    if (handle === undefined) return
    await this.#user.drive.flush(handle).finally(() => this.#user.drive.release(handle))
  }

  async #unlink(path: string): Promise<void> {
    const { parent, name: last } = await this.#user.parent(path)
    await this.#user.drive.unlink(parent, last)
  }

  async #rename(from: string, to: string): Promise<void> {
    const [source, target] = [await this.#user.parent(from), await this.#user.parent(to)]
    await this.#user.drive.rename(source.parent, source.name, target.parent, target.name)
  }
}

it('what content takes of the account is given back exactly, whatever is done', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'bagfs-room-'))
  const service = await TestService.start(join(dir, 'service'))
  try {
    const { token, local } = service
    const user = await DriveInProcess.open({ url: local.url, token, dir, writeBack: true })
    try {
      await fc.assert(
        fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 40 }), async (steps) => {
          for (const folder of ['F', 'G']) {
            await user.drive.makeDirectory(ROOT, folder, 0o755).catch(() => undefined)
          }
          await new Program(user).run(steps)
          expect(user.drive.space.holders()).toEqual([])
        }),
        { numRuns: 60 },
      )
    } finally {
      await user.drop()
    }
  } finally {
    await service.close()
    rmSync(dir, { recursive: true, force: true })
  }
}, 120_000)

/** A drive with a folder of 90 kB that is not stored. */
async function withFolder(capacityBytes: number) {
  const dir = mkdtempSync(join(tmpdir(), 'bagfs-room-'))
  const service = await TestService.start(join(dir, 'service'), { capacityBytes })
  const user = await DriveInProcess.open({
    ...{ url: service.proxy.url, token: service.token, dir: join(dir, 'state'), writeBack: true },
    tuning: { uploads: { ...TUNING.uploads, retryBaseMs: 1e9, retryMaxMs: 1e9 } },
  })
  onTestFinished(async () => {
    await user.drop()
    await service.close()
    rmSync(dir, { recursive: true })
  })
  await user.makeDirectory('F')
  await user.write('F/a', noiseOf(90_000, 1))
  const free = async (): Promise<number> => (await user.drive.space.report())?.free ?? NaN
  return { service, user, free }
}

it('a folder whose zip waits takes its room once, and for one change more no second time', async () => {
  const { service, user, free } = await withFolder(200_000)
  service.proxy.add({ match: { method: 'POST' }, fault: { answer: { status: 503 } } })
  await expect(user.drive.commands.sync()).rejects.toThrow()
  expect(user.outbox.intents()).toMatchObject([{ content: { from: 'staged' } }])
  expect(await free()).toBeGreaterThan(109_000)
  expect(user.drive.space.holders()).toEqual([])
  await user.write('F/b', noiseOf(60_000, 2))
  expect(await free()).toBeGreaterThan(49_000)
  await expect(user.write('F/c', noiseOf(60_000, 3))).rejects.toMatchObject({ code: 'no-space' })
})

it('what a program writes into a folder while its zip is sent takes room beside that', async () => {
  const { service, user, free } = await withFolder(400_000)
  service.proxy.add({ match: { method: 'POST' }, fault: { stallResponseAfter: 0 } })
  user.drive.commands.sync().catch(() => undefined)
  await expect.poll(() => user.outbox.intents()).toMatchObject([{ content: { from: 'staged' } }])
  // The service counts the zip from now on, and the drive, which has no answer, does too.
  await expect.poll(() => service.list()).toHaveLength(1)
  await user.drive.space.ask()
  const handle = await user.drive.open(await user.node('F/a'), { writable: true, truncate: false })
  await user.drive.write(handle, noiseOf(10_000, 4), 90_000)
  expect(await free()).toBeLessThan(150_000)
  await user.drive.release(handle)
  // Closed, it is a change that the zip on its way has not.
  expect(await free()).toBeLessThan(150_000)
})
