import { describe, expect, it } from 'vitest'
import { deferred } from '../../../src/domain/deferred.ts'
import { AccountInProcess } from '../../support/account-in-process.ts'
import type { DriveInProcess } from '../../support/drive-in-process.ts'
import { SEED, seededRandom } from '../../support/seed.ts'
import { turns } from '../../support/turns.ts'
import { UPLOAD } from '../../support/uploads.ts'

const RUNS = 30

type Files = Readonly<Record<string, string>>

/** What a program does to the one folder that there is, and what it was told of it. */
class Program {
  /** What is there by what succeeded. */
  files: Files = { 'F/x': 'old', 'F/y': 'old' }
  /** What is there if the change that failed was made all the same. */
  next: Files = this.files
  /** Changes that succeeded. */
  made = 0
  readonly #random: () => number
  #folder = 'F'

  constructor(seed: number) {
    this.#random = seededRandom(seed)
  }

  upTo(most: number): number {
    return Math.floor(this.#random() * most)
  }

  /** Until one fails; this many at most. */
  async run(user: DriveInProcess, most: number): Promise<void> {
    for (let count = 0; count < most; count += 1) {
      const folder = this.#folder
      try {
        await this.#change(user)
      } catch {
        this.#folder = folder
        return
      }
      this.files = this.next
      this.made += 1
      if (this.#random() < 0.5) await turns(this.upTo(20))
    }
  }

  async #change(user: DriveInProcess): Promise<void> {
    const from = this.#folder
    if (this.#random() < 0.35) {
      const names = ['F', 'G', 'H'].filter((name) => name !== from)
      this.#folder = names[this.upTo(names.length)] ?? from
      const renamed = (path: string): string => path.replace(from, this.#folder)
      const all = Object.entries(this.files)
      this.next = Object.fromEntries(all.map(([path, content]) => [renamed(path), content]))
      await user.rename(from, this.#folder)
    } else {
      const path = `${from}/${this.#random() < 0.5 ? 'x' : 'y'}`
      this.next = { ...this.files, [path]: `${this.made}` }
      await user.write(path, `${this.made}`)
    }
  }
}

describe('a drive that is closed while programs go on', () => {
  it('has all that they were told is done', async () => {
    let made = 0
    for (let run = 0; run < RUNS; run += 1) {
      const program = new Program(SEED + run)
      const account = await AccountInProcess.start()
      const { proxy } = account.service
      proxy.add({ match: UPLOAD, fault: { loseAnswer: true }, times: run % 2 })
      proxy.add({ match: UPLOAD, fault: { answerLatencyMs: 20 } })
      const user = await account.open({ settings: { folderRestMs: 1 } })
      await user.makeDirectory('F')
      for (const [path, content] of Object.entries(program.files)) await user.write(path, content)
      await program.run(user, 6)
      const going = program.run(user, 60)
      await turns(program.upTo(60))
      await user.drop()
      await going
      made += program.made
      const again = await account.open()
      expect([program.files, program.next], `seed ${SEED}, run ${run}`).toContainEqual(
        await again.tree(),
      )
      await again.drop()
    }
    expect(made).toBeGreaterThan(RUNS)
  })

  it('refuses what begins then', async () => {
    const account = await AccountInProcess.start()
    const user = await account.open()
    await user.write('a', 'old')
    const handle = await user.open('a', true)
    const closed = user.drop()
    await expect(user.rename('a', 'b')).rejects.toMatchObject({ code: 'interrupted' })
    const write = async () => user.drive.write(handle, Buffer.from('new'), 0)
    await expect(write()).rejects.toMatchObject({ code: 'interrupted' })
    await closed
  })

  it('lets a change end that began before', async () => {
    const account = await AccountInProcess.start()
    const other = await account.open({}, 'other')
    await other.write('a', 'old')
    await other.drain()
    const user = await account.open()
    const isAsked = deferred()
    const mayAnswer = deferred()
    const before = (): Promise<void> => {
      isAsked.resolve()
      return mayAnswer.promise
    }
    account.service.proxy.add({ match: { path: /download/ }, fault: { before } })
    const ended = user.drive.truncate(await user.node('a'), 2)
    await isAsked.promise
    const closed = user.drop()
    await turns(200)
    mayAnswer.resolve()
    await ended
    await closed
    const again = await account.open()
    expect(await again.read('a')).toBe('ol')
  })
})
