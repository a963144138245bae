import { join } from 'node:path'
import {
  askOutbox,
  askStatus,
  askToRestore,
  askToSync,
  askTrash,
} from '../../../src/control/client.ts'
import type { DriveStatus } from '../../../src/control/protocol.ts'
import { startFaultProxy, type Fault, type FaultProxy } from '../fault-proxy.ts'
import { MountedDrive } from '../mounted-drive.ts'
import { TOKEN } from '../service-process.ts'
import type { Who } from './history.ts'
import type { Holder } from './holder.ts'
import type { Witness } from './witness.ts'
import { registryIn } from '../places.ts'

/** What a program of a machine holds open, for a drive that is to leave. */
export interface LetGo {
  letGo(): Promise<void>
}

interface MachineDeps {
  readonly holder: Holder
  readonly witness: Witness
}

interface MachineSettings {
  readonly who: Who
  readonly dir: string
  readonly ttlMs: number
  readonly args: readonly string[]
}

type WaitingItem = DriveStatus['outbox'][number]

const UPLOADS = { method: 'POST', path: /upload$/ }
const LAST_LINES = 40
/** What the other machine replaced or deleted while it was renamed here, unread: the drive waits for its user. */
const RENAMED_AND_GONE = 'Its content is gone at the service'
const REFUSAL = '{"detail":"refused by the test"}'

/** A drive of the account, with a state directory and a way to the service of its own. */
export class Machine {
  readonly who: Who
  readonly ttlMs: number
  /** Programs that hold files open: each takes itself out. */
  readonly holding = new Set<LetGo>()
  readonly #deps: MachineDeps
  readonly #settings: MachineSettings
  readonly #proxy: FaultProxy
  #drive: MountedDrive | undefined
  /** How often it did not end when it was told to leave. */
  hungLeaves = 0
  /** When the drive that is mounted now was started, as in `History`. */
  mountedAt = 0
  /** Operations begin when it is resolved. */
  #gate: Promise<void> = Promise.resolve()
  readonly #inFlight = new Set<Promise<unknown>>()
  #logBefore = ''
  readonly #troubles: Promise<void>[] = []

  private constructor(deps: MachineDeps, settings: MachineSettings, proxy: FaultProxy) {
    this.#deps = deps
    this.#settings = settings
    this.#proxy = proxy
    this.who = settings.who
    this.ttlMs = settings.ttlMs
  }

  static async start(deps: MachineDeps, settings: MachineSettings): Promise<Machine> {
    const proxy = await startFaultProxy(deps.witness.urlOf(settings.who))
    const machine = new Machine(deps, settings, proxy)
    await machine.#mount()
    return machine
  }

  /** Does something with the drive once it is mounted. */
  async use<Result>(task: () => Promise<Result>): Promise<Result> {
    for (let gate: Promise<void> | undefined; gate !== this.#gate;) {
      gate = this.#gate
      await gate
    }
    const work = task()
    this.#inFlight.add(work)
    try {
      return await work
    } finally {
      this.#inFlight.delete(work)
    }
  }

  /** Leaves as SIGTERM has it, when no program uses the drive, and mounts again. */
  async remount(): Promise<void> {
    await this.#alone(async () => {
      await this.#settled()
      for (const program of [...this.holding]) await program.letGo()
      await this.#deps.holder.exit(this.who)
      await this.#leave()
      await this.#mount()
    })
  }

  /** kill -9, whatever is under way, and mounts again. `before` is called in the moment of the kill. */
  async kill(before: () => void): Promise<void> {
    await this.#alone(async () => {
      before()
      await this.#die()
      await this.#settled()
      await this.#deps.holder.exit(this.who)
      await this.#mount()
    })
  }

  /**
   * Begins something for a while: For this drive only, `refuse` is of all uploads, as by a service that
   * never takes them: what was refused is tried again after it. `slow` is of all uploads, `away` of the service.
   */
  trouble(what: 'refuse' | 'slow' | 'away', ms: number): void {
    const trouble = this.#trouble(what, ms)
    this.#troubles.push(trouble)
    trouble.catch(() => undefined)
  }

  /** Resolves when no trouble is left. */
  async calm(): Promise<void> {
    await Promise.all(this.#troubles)
  }

  /** Tries everything once that the service does not have. */
  async sync(): Promise<void> {
    await this.use(async () => askToSync(await this.#socketPath(), { onProgress: () => undefined }))
  }

  /** Puts back the file whose name begins so and that was deleted last; answers what it was called, if there is any. */
  async restore(prefix: string, name: string): Promise<string | undefined> {
    const socketPath = await this.#socketPath()
    const items = await askTrash(socketPath)
    const item = items.find((each) => each.name.startsWith(prefix) && !each.isFolder)
    if (item !== undefined) await askToRestore(socketPath, item.bagId, { name, replace: false })
    return item?.name
  }

  /** What the service does not have, or has not done. */
  async waiting(): Promise<readonly WaitingItem[]> {
    const status = await askStatus(await this.#socketPath())
    return status?.outbox.filter(({ phase }) => phase !== 'local') ?? []
  }

  /** Does as the drive advises about a rename that came too late; answers the names that are free again. */
  async giveUpRenames(): Promise<readonly string[]> {
    const late = (await this.waiting()).filter(({ state }) => state.includes(RENAMED_AND_GONE))
    if (late.length === 0) return []
    const ids = late.map(({ id }) => id)
    const discarded = await askOutbox(await this.#socketPath(), 'discard', ids)
    return discarded.map(({ name }) => name)
  }

  /** The last lines, and those about names that begin so. */
  log(prefix: string): string {
    const lines = (this.#logBefore + (this.#drive?.log ?? '')).split('\n')
    const told = lines.filter((line) => !/^\s+at /.test(line))
    const last = told.length - LAST_LINES
    return told.filter((line, index) => index >= last || line.includes(prefix)).join('\n')
  }

  async close(): Promise<void> {
    await this.#drive?.kill()
    await this.#proxy.close()
  }

  async #mount(): Promise<void> {
    this.#logBefore += this.#drive?.log ?? ''
    const { dir, ttlMs, args } = this.#settings
    const dirs = { mountpoint: join(dir, 'drive'), stateDir: join(dir, 'state') }
    const times = ['--listing-ttl', `${ttlMs}ms`, '--folder-settle', '200ms']
    this.mountedAt = performance.now()
    const service = { url: this.#proxy.url, token: TOKEN }
    this.#drive = await MountedDrive.mount(service, dirs, [...times, ...args])
    await this.#deps.holder.enter(this.who, dirs.mountpoint)
  }

  /** Ends the drive; one that does not leave in time is killed, and that is told. */
  async #leave(): Promise<void> {
    try {
      await this.#drive?.leave()
    } catch (error) {
      this.hungLeaves += 1
      console.error(String(error))
      await this.#drive?.kill()
    }
    this.#deps.witness.listings.break(this.who)
  }

  /** Fails when there was no drive to kill. */
  async #die(): Promise<void> {
    const drive = this.#drive
    if (drive === undefined) return
    const wasMounted = drive.isMounted && drive.process.exitCode === null
    await drive.kill()
    this.#deps.witness.listings.break(this.who)
    if (!wasMounted || drive.process.signalCode !== 'SIGKILL') {
      throw new Error(`The drive of ${this.who} had ended before it was killed:\n${drive.log}`)
    }
  }

  /** Runs a task while no operation begins; those that are under way go on. */
  async #alone(task: () => Promise<void>): Promise<void> {
    const before = this.#gate
    const work = before.then(task)
    // What waits for the drive ends with it when it does not come back.
    this.#gate = work
    await work
  }

  async #settled(): Promise<void> {
    while (this.#inFlight.size > 0) await Promise.allSettled(this.#inFlight)
  }

  async #trouble(what: 'refuse' | 'slow' | 'away', ms: number): Promise<void> {
    switch (what) {
      case 'refuse':
        await this.#harm({ answer: { status: 422, body: REFUSAL } }, ms)
        await this.sync().catch(() => undefined)
        return
      case 'slow':
        return this.#harm({ latencyMs: 60 }, ms)
      case 'away':
        await this.#proxy.down()
        this.#deps.witness.listings.break(this.who)
        await new Promise((resolve) => setTimeout(resolve, ms))
        return this.#proxy.up()
    }
  }

  async #harm(fault: Fault, ms: number): Promise<void> {
    const isOver = this.#proxy.add({ match: UPLOADS, fault })
    await new Promise((resolve) => setTimeout(resolve, ms))
    isOver()
  }

  async #socketPath(): Promise<string> {
    const { dir } = this.#settings
    const mountpoint = join(dir, 'drive')
    const found = await registryIn(dir).find(mountpoint)
    if (found === undefined) throw new Error(`No drive is known at ${mountpoint}.`)
    return found.socketPath
  }
}
