import { mkdir, readFile, rename, unlink, type FileHandle } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { canMount } from '../support/fuse.ts'
import { TwoDrives, type Machine, type Who } from '../support/two-drives.ts'

/** The same runs each time, so that a red build is somebody's change; BAGFS_TWO_SEED=0 picks others. */
const RUNS = Number(process.env['BAGFS_TWO_RUNS'] ?? 200)
const CHOSEN = Number(process.env['BAGFS_TWO_SEED'] ?? 20_261_122)
const SEED = CHOSEN === 0 ? Date.now() % 1_000_000_000 : CHOSEN
const TIMEOUT_MS = 1_200_000
/** What comes in the end may take its time on a machine that is busy. */
const LIMIT = { timeout: 60_000 }

const who = fc.constantFrom<Who>('A', 'B')
const file = fc.constantFrom('a', 'b', 'F/x', 'F/y')

const operation = fc.oneof(
  { weight: 8, arbitrary: fc.record({ op: fc.constant('write' as const), who, file }) },
  { weight: 8, arbitrary: fc.record({ op: fc.constant('append' as const), who, file }) },
  { weight: 6, arbitrary: fc.record({ op: fc.constant('replace' as const), who, file }) },
  {
    weight: 10,
    arbitrary: fc.record({
      op: fc.constant('hold' as const),
      who,
      file,
      flags: fc.constantFrom('a', 'r+'),
    }),
  },
  { weight: 10, arbitrary: fc.record({ op: fc.constant('let go' as const), who }) },
  { weight: 6, arbitrary: fc.record({ op: fc.constant('rename' as const), who, file, to: file }) },
  { weight: 4, arbitrary: fc.record({ op: fc.constant('remove' as const), who, file }) },
  { weight: 12, arbitrary: fc.record({ op: fc.constant('look' as const), who }) },
  { weight: 1, arbitrary: fc.record({ op: fc.constant('remount' as const), who }) },
  { weight: 1, arbitrary: fc.record({ op: fc.constant('kill' as const), who }) },
)
type Operation = typeof operation extends fc.Arbitrary<infer One> ? One : never

describe.runIf(canMount())('two machines on one account', () => {
  let drives: TwoDrives
  let runs = 0
  beforeAll(async () => {
    console.log(`${RUNS} runs of two drives, seed ${SEED}`)
    drives = await TwoDrives.start()
  })
  afterAll(async () => {
    await drives.close()
  })

  it('lose nothing that was acknowledged, whichever wins', { timeout: TIMEOUT_MS }, async () => {
    const operations = fc.array(operation, { minLength: 4, maxLength: 14 })
    await fc.assert(
      fc.asyncProperty(operations, async (all) => {
        runs += 1
        const run = new Run(drives, `r${runs}-`)
        for (const each of all) await run.do(each)
        await run.check()
      }),
      {
        ...{ numRuns: RUNS, seed: SEED, interruptAfterTimeLimit: TIMEOUT_MS / 2 },
        // Each smaller case waits for its limit: BAGFS_TWO_RUNS below 100 looks for the smallest.
        endOnFailure: RUNS >= 100,
      },
    )
  })
})

/** Of a handle that is for appending, where no write goes over another. */
const NOTHING_READ = { bytesRead: 0 }

interface Held {
  readonly who: Who
  readonly handle: FileHandle
  /** Where it ends by what the program saw when it opened it. */
  readonly size: number
  /** None once a program of the same machine removed it, or put another in its place. */
  readonly name: string | undefined
}

/** One run has names of its own, so that the mounts serve many. */
class Run {
  readonly #drives: TwoDrives
  readonly #prefix: string
  /** Written by a close that said that all is well. */
  readonly #acknowledged = new Set<string>()
  /** In a version that a drive had shown when one of its programs did away with it. */
  readonly #doneAway = new Set<string>()
  #held: readonly Held[] = []
  #tokens = 0

  constructor(drives: TwoDrives, prefix: string) {
    this.#drives = drives
    this.#prefix = prefix
  }

  async do(operation: Operation): Promise<void> {
    const machine = this.#drives.machine(operation.who)
    switch (operation.op) {
      case 'write':
        return this.#meaning(machine, operation.file, () =>
          this.#write(machine, operation.file, 'w'),
        )
      case 'append':
        return this.#write(machine, operation.file, 'a')
      case 'replace':
        return this.#replace(machine, operation.file)
      case 'hold':
        return this.#hold(operation.who, operation.file, operation.flags)
      case 'let go':
        return this.#letGo(operation.who)
      case 'rename':
        if (operation.file === operation.to) return
        return this.#meaning(machine, operation.to, () =>
          this.#rename(machine, operation.file, operation.to),
        )
      case 'remove':
        return this.#meaning(machine, operation.file, () => this.#remove(machine, operation.file))
      case 'look':
        return this.#look(machine)
      case 'remount':
        await this.#letGo(operation.who)
        await machine.leave()
        return machine.mount()
      case 'kill':
        await machine.kill()
        await machine.mount()
        return this.#letGo(operation.who)
    }
  }

  /** All that was acknowledged is in the account, and both drives show what is in it and nothing else. */
  async check(): Promise<void> {
    await this.end()
    const lost = async (): Promise<readonly string[]> => {
      const stored = (await this.#drives.stored(this.#prefix)).join('')
      const wanted = [...this.#acknowledged].filter((token) => !this.#doneAway.has(token))
      return wanted.filter((token) => !stored.includes(token))
    }
    await expect.poll(lost, LIMIT).toEqual([])
    const shown = async (): Promise<unknown> => ({
      stored: await this.#drives.stored(this.#prefix),
      A: await this.#drives.machine('A').contents(this.#prefix),
      B: await this.#drives.machine('B').contents(this.#prefix),
    })
    await expect.poll(() => shown().catch(String), LIMIT).toSatisfy(isOne)
  }

  /** Leaves nothing open, whatever came. */
  async end(): Promise<void> {
    for (const who of ['A', 'B'] as const) await this.#letGo(who)
  }

  #path(machine: Machine, name: string): string {
    return join(machine.path, this.#prefix + name)
  }

  #token(machine: Machine): string {
    this.#tokens += 1
    return `<${this.#prefix}${machine.who}${this.#tokens}>`
  }

  async #write(machine: Machine, name: string, flags: string): Promise<void> {
    const path = this.#path(machine, name)
    if (name.includes('/')) await attempt(mkdir(dirname(path)))
    const handle = await machine.open(this.#prefix + name, flags).catch(() => undefined)
    if (handle !== undefined)
      await this.#finish(machine, handle, (token) => handle.appendFile(token))
  }

  /** Reads by the handle that then empties it: just this version is done away with. */
  async #replace(machine: Machine, name: string): Promise<void> {
    const handle = await machine.open(this.#prefix + name, 'r+').catch(() => undefined)
    if (handle === undefined) return
    await this.#finish(machine, handle, async (token) => {
      this.#doAway(await handle.readFile('utf8'))
      await handle.truncate(0)
      await handle.write(token, 0)
    })
  }

  async #hold(who: Who, name: string, flags: string): Promise<void> {
    const machine = this.#drives.machine(who)
    const handle = await machine.open(this.#prefix + name, flags).catch(() => undefined)
    if (handle === undefined) return
    const { size } = await handle.stat()
    this.#held = [...this.#held, { who, handle, size, name }]
  }

  /** Each program that holds a file of this machine writes to its end and closes. */
  async #letGo(whose: Who): Promise<void> {
    const held = this.#held.filter((each) => each.who === whose)
    this.#held = this.#held.filter((each) => each.who !== whose)
    const machine = this.#drives.machine(whose)
    for (const { handle, size, name } of held) {
      const token = await this.#finish(machine, handle, async (written) => {
        await this.#overwrite(machine, handle, size)
        await handle.write(written, size)
      })
      if (name === undefined) this.#doAway(token)
    }
  }

  async #finish(
    machine: Machine,
    handle: FileHandle,
    write: (token: string) => Promise<void>,
  ): Promise<string> {
    const token = this.#token(machine)
    const isWritten = await attempt(write(token))
    const isClosed = await attempt(handle.close())
    if (isWritten && isClosed) this.#acknowledged.add(token)
    return token
  }

  /** Programs of one machine share a file: what one wrote after the other looked is overwritten. */
  async #overwrite({ who }: Machine, handle: FileHandle, from: number): Promise<void> {
    const content = Buffer.alloc(4_096)
    const { bytesRead } = await handle.read(content, 0, content.length, 0).catch(() => NOTHING_READ)
    const after = content.toString('utf8', from, bytesRead)
    const own = after.match(/<[^>]*>/g)?.filter((token) => token.includes(`-${who}`)) ?? []
    this.#doAway(own.join(''))
  }

  async #rename(machine: Machine, from: string, to: string): Promise<void> {
    if (!(await attempt(rename(this.#path(machine, from), this.#path(machine, to))))) return
    this.#moveHeld(machine, to, undefined)
    this.#moveHeld(machine, from, to)
  }

  async #remove(machine: Machine, name: string): Promise<void> {
    if (await attempt(unlink(this.#path(machine, name)))) this.#moveHeld(machine, name, undefined)
  }

  #moveHeld(machine: Machine, from: string, to: string | undefined): void {
    this.#held = this.#held.map((each) =>
      this.#drives.machine(each.who) === machine && each.name === from
        ? { ...each, name: to }
        : each,
    )
  }

  /**
   * Does away with what a name means to a machine: what it shows, and what the account has under the
   * name when the machine asks for a listing meanwhile.
   */
  async #meaning(machine: Machine, name: string, act: () => Promise<unknown>): Promise<void> {
    const top = this.#prefix + (name.split('/')[0] ?? '')
    const listings = machine.listings()
    const before = await this.#drives.stored(top)
    const seen = await readFile(this.#path(machine, name), 'utf8').catch(() => '')
    await act()
    this.#doAway(seen)
    if (listings !== undefined && machine.listings() === listings) return
    this.#doAway([...before, ...(await this.#drives.stored(top))].join(''))
  }

  #doAway(content: string): void {
    for (const token of content.match(/<[^>]*>/g) ?? []) this.#doneAway.add(token)
  }

  /** Waits until a machine shows what is in the account; not for ever, since it may have more. */
  async #look(machine: Machine): Promise<void> {
    const endMs = performance.now() + 2_000
    while (performance.now() < endMs) {
      const [stored, shown] = await Promise.all([
        this.#drives.stored(this.#prefix),
        machine.contents(this.#prefix).catch(() => []),
      ])
      if (isOne({ stored, shown })) return
    }
  }
}

/** True when each of these is the same. */
function isOne(contents: unknown): boolean {
  if (typeof contents !== 'object' || contents === null) return false
  return new Set(Object.values(contents).map((each) => JSON.stringify(each))).size === 1
}

/** Whether it was done without an error. */
async function attempt(task: Promise<unknown>): Promise<boolean> {
  return task.then(
    () => true,
    () => false,
  )
}
