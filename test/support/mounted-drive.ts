import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { execa } from 'execa'
import { expect } from 'vitest'
import { silentLogger } from '../../src/domain/logger.ts'
import type { BridgeKind } from '../../src/kernel/bridge.ts'
import type { FileRecordWire } from '../../src/service/wire.ts'
import {
  startLocalService,
  type LocalService,
  type ServiceEvent,
} from '../../src/local-service/server.ts'
import { eventually } from './eventually.ts'
import { startFaultProxy, type FaultProxy } from './fault-proxy.ts'
import { placesIn } from './places.ts'
import { mountSmallDisk, unmountSmallDisk } from './small-disk.ts'
import { PROGRAM, TOKEN, type ServiceProcess } from './service-process.ts'
import { Terminal } from './terminal.ts'

/** A disk that is nearly full will do, and uploads that broke off are not waited for as long as in earnest. */
const USUAL = ['--min-free', '1MB', '--listing-lag', '3s']
/** Of another account. */
export const OTHER_TOKEN = 'other-token-0123456789'
/** Nothing takes as long that does not hang, on a machine that has much else to do neither. */
export const HANGING_MS = 120_000
/** As Node writes of what may be a leak, or a promise that failed unseen. */
const WARNED = /^\(node:\d+\) /m

/** The service of a test: embedded, over real HTTP, with a fault proxy in between. */
export class TestService {
  readonly events: ServiceEvent[] = []
  readonly token = TOKEN
  readonly local: Pick<LocalService, 'url' | 'close'>
  readonly proxy: FaultProxy

  private constructor(
    local: Pick<LocalService, 'url' | 'close'>,
    proxy: FaultProxy,
    events: ServiceEvent[],
  ) {
    this.local = local
    this.proxy = proxy
    this.events = events
  }

  static async start(
    dataDir: string,
    { capacityBytes, extraRecords }: Pick<BenchOptions, 'capacityBytes' | 'extraRecords'> = {},
  ): Promise<TestService> {
    const events: ServiceEvent[] = []
    const local = await startLocalService(
      {
        dataDir,
        tokens: [TOKEN, OTHER_TOKEN],
        ...(capacityBytes === undefined ? {} : { capacityBytes }),
        ...(extraRecords === undefined ? {} : { extraRecords }),
      },
      { log: silentLogger, onRequest: (event) => events.push(event) },
    )
    return new TestService(local, await startFaultProxy(local.url), events)
  }

  /** A service in a process of its own, which can be killed; no events are heard of it. */
  static async startIn(process: ServiceProcess): Promise<TestService> {
    return new TestService(process, await startFaultProxy(process.url), [])
  }

  /** Names of successful uploads, in order. */
  uploads(): readonly (string | undefined)[] {
    return this.events
      .filter(
        ({ method, path, status }) =>
          method === 'POST' && path.endsWith('/upload') && status === 200,
      )
      .map(({ name }) => name)
  }

  deletes(): number {
    return this.events.filter(({ method, status }) => method === 'DELETE' && status === 200).length
  }

  forgetEvents(): void {
    this.events.length = 0
  }

  async #call(path: string, init: RequestInit = {}): Promise<Response> {
    const answer = await fetch(this.local.url + path, {
      ...init,
      headers: { authorization: `Bearer ${TOKEN}` },
    })
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`)
    return answer
  }

  async list(): Promise<readonly FileRecordWire[]> {
    return (await (await this.#call('/api/user/files_list')).json()) as FileRecordWire[]
  }

  /** Names at the service with their content, as another client sees them. */
  async contents(): Promise<Record<string, string>> {
    const all: Record<string, string> = {}
    for (const record of await this.list()) {
      if (record.filename in all) throw new Error(`Two bags have the name ${record.filename}.`)
      const content = await this.content(record.bag_id).catch(async (error: unknown) => {
        if (await this.#isListed(record.bag_id)) throw error
        return undefined
      })
      // The drive deletes what it replaced a moment after close: the listing was of before that.
      if (content === undefined) return this.contents()
      all[record.filename] = content.toString('utf8')
    }
    return all
  }

  async #isListed(bagId: string): Promise<boolean> {
    return (await this.list()).some((record) => record.bag_id === bagId)
  }

  async content(bagId: string): Promise<Buffer> {
    return Buffer.from(await (await this.#call(`/api/bag/download/${bagId}`)).arrayBuffer())
  }

  /** The content of the one bag of a name; what it replaced may go a moment after close has returned. */
  async contentOf(name: string): Promise<Buffer> {
    const named = async () => (await this.list()).filter(({ filename }) => filename === name)
    const ids = async () => (await named()).map((record) => record.bag_id)
    const bagId = await eventually(async () => {
      const found = await ids()
      expect(found, `bags of the name ${name}`).toHaveLength(1)
      return found[0] ?? ''
    })
    return this.content(bagId)
  }

  /** What another client does: an upload that the drive knows nothing of. */
  async upload(name: string, content: string | Uint8Array, description = ''): Promise<string> {
    const form = new FormData()
    form.append('file', new Blob([new Uint8Array(Buffer.from(content))]), name)
    form.append('description', description)
    const answer = await this.#call('/api/files/upload', { method: 'POST', body: form })
    return ((await answer.json()) as { bag_id: string }).bag_id
  }

  /** A bag of another account: on the network, and not in the listing of the drive. */
  async uploadElsewhere(name: string, content: string): Promise<string> {
    const form = new FormData()
    form.append('file', new Blob([content]), name)
    form.append('description', '')
    const answer = await fetch(`${this.local.url}/api/files/upload`, {
      method: 'POST',
      body: form,
      headers: { authorization: `Bearer ${OTHER_TOKEN}` },
    })
    return ((await answer.json()) as { bag_id: string }).bag_id
  }

  async delete(bagId: string): Promise<void> {
    const body = new URLSearchParams({ bag_id: bagId })
    await this.#call('/api/bag', { method: 'DELETE', body })
  }

  async close(): Promise<void> {
    await this.proxy.close()
    await this.local.close()
  }
}

/** A drive mounted by the built program in a process of its own. */
export class MountedDrive {
  readonly path: string
  readonly process: ChildProcess
  readonly #log: () => string

  private constructor(path: string, process: ChildProcess, log: () => string) {
    this.path = path
    this.process = process
    this.#log = log
  }

  /** Mounts; rejects with the program's log when it does not come up. */
  static async mount(
    service: { url: string; token: string },
    dirs: { mountpoint: string; stateDir: string },
    args: readonly string[] = [],
    env: Readonly<Record<string, string>> = {},
  ): Promise<MountedDrive> {
    const drive = MountedDrive.spawn(service, dirs, args, env)
    await drive.#untilMounted()
    return drive
  }

  /** Starts the program that mounts, and does not wait. Only commands of the same test know the drive. */
  static spawn(
    service: { url: string; token: string },
    dirs: { mountpoint: string; stateDir: string },
    args: readonly string[] = [],
    env: Readonly<Record<string, string>> = {},
  ): MountedDrive {
    // A mount that hangs must not be touched from here.
    if (!isMounted(dirs.mountpoint)) mkdirSync(dirs.mountpoint, { recursive: true })
    mkdirSync(dirs.stateDir, { recursive: true })
    const tokenFile = join(dirs.stateDir, 'token')
    writeFileSync(tokenFile, service.token, { mode: 0o600 })
    const child = spawn(
      process.execPath,
      [
        PROGRAM,
        'mount',
        dirs.mountpoint,
        '--foreground',
        ...['--url', service.url, '--token-file', tokenFile, '--state-dir', dirs.stateDir],
        ...['--log-level', 'debug', ...USUAL, ...args],
      ],
      {
        stdio: ['ignore', 'pipe', 'pipe'],
        env: { ...process.env, ...placesIn(dirname(dirs.mountpoint)), ...env },
      },
    )
    const log: string[] = []
    child.stdout.on('data', (chunk: Buffer) => log.push(chunk.toString()))
    child.stderr.on('data', (chunk: Buffer) => log.push(chunk.toString()))
    return new MountedDrive(dirs.mountpoint, child, () => log.join(''))
  }

  async #untilMounted(): Promise<void> {
    const deadline = Date.now() + HANGING_MS
    while (!isMounted(this.path)) {
      if (this.process.exitCode !== null || Date.now() > deadline) {
        await this.kill()
        throw new Error(`The drive did not mount:\n${this.log}`)
      }
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  }

  get log(): string {
    return this.#log()
  }

  /** Runs a shell command inside the drive; rejects when it fails or takes too long. */
  async sh(command: string): Promise<string> {
    const { stdout } = await execa('bash', ['-ec', command], {
      cwd: this.path,
      timeout: HANGING_MS,
      killSignal: 'SIGKILL',
      stripFinalNewline: false,
      env: { LC_ALL: 'C.UTF-8' },
    })
    return stdout
  }

  /** As `sh`, for a command that fails: its exit code and what it said. */
  async fails(command: string): Promise<{ code: number | undefined; stderr: string }> {
    const result = await execa('bash', ['-c', command], {
      cwd: this.path,
      timeout: HANGING_MS,
      killSignal: 'SIGKILL',
      reject: false,
      env: { LC_ALL: 'C.UTF-8' },
    })
    if (result.exitCode === 0) throw new Error(`This did not fail: ${command}`)
    return { code: result.exitCode, stderr: result.stderr }
  }

  /** Leaves as SIGTERM does: waits for the outbox. */
  async leave(): Promise<void> {
    this.signal('SIGTERM')
    await this.ended()
  }

  signal(signal: 'SIGINT' | 'SIGTERM' | 'SIGKILL' | 'SIGSTOP' | 'SIGCONT'): void {
    this.process.kill(signal)
  }

  /** The exit code of the drive's process; rejects with the log when it does not end, or Node warned of something in it. */
  async ended(): Promise<number | null> {
    await this.#ended()
    if (WARNED.test(this.log)) throw new Error(`Node warned in the drive:\n${this.log}`)
    return this.process.exitCode
  }

  get isMounted(): boolean {
    return isMounted(this.path)
  }

  /** Memory that the drive's process has in use, in bytes. */
  residentBytes(): number {
    const status = readFileSync(`/proc/${this.process.pid ?? 0}/status`, 'utf8')
    return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]) * 1024
  }

  /** kill -9, and the dead mount taken away. */
  async kill(): Promise<void> {
    if (this.process.exitCode === null && this.process.signalCode === null) {
      this.process.kill('SIGKILL')
      await this.ended()
    }
    if (isMounted(this.path)) spawnSync('fusermount', ['-uz', this.path], { timeout: 5_000 })
  }

  async #ended(): Promise<void> {
    if (this.process.exitCode !== null || this.process.signalCode !== null) return
    const limit = AbortSignal.timeout(HANGING_MS)
    try {
      await once(this.process, 'exit', { signal: limit })
    } catch {
      const threads = threadsOf(this.process.pid ?? 0)
      throw new Error(
        `The drive did not end within ${HANGING_MS} ms. Its log:\n${this.log.slice(-4_000)}\nIts threads:\n${threads}`,
      )
    }
  }
}

/** What each thread of a process waits for, for a report of why it does not end. */
function threadsOf(pid: number): string {
  const task = `/proc/${pid}/task`
  const lines = readdirSync(task).map((id) => {
    const [name, state, waitsIn] = ['comm', 'stat', 'wchan'].map((file) => {
      const text = readFileSync(join(task, id, file), 'utf8').trim()
      return file === 'stat' ? text.replace(/^.*\) (\S).*$/, '$1') : text
    })
    return `${id} ${name} ${state} ${waitsIn}`
  })
  return lines.join('\n')
}

function isMounted(path: string): boolean {
  return readFileSync('/proc/self/mounts', 'utf8')
    .split('\n')
    .some((line) => line.split(' ')[1] === path)
}

export interface BenchOptions {
  readonly capacityBytes?: number
  readonly extraRecords?: () => readonly FileRecordWire[]
  /** As `--bridge`; without it the default one. */
  readonly bridge?: BridgeKind
  /** Puts the state directory on a disk of its own that holds no more than this; only root can. */
  readonly stateBytes?: number
  /** Makes `dir` a home. GIO shows what lies in it, but nothing below /dev, where tests are when memory allows it. */
  readonly isHome?: boolean
}

/** How a command ended. */
export interface Outcome {
  readonly code: number | undefined
  readonly stdout: string
  readonly stderr: string
}

/** Everything a mount test needs, and its end. */
export class Bench {
  readonly dir: string
  readonly mountpoint: string
  readonly stateDir: string
  readonly #drives: MountedDrive[] = []
  readonly #hasSmallDisk: boolean
  /** Arguments of each mount. */
  readonly #bridge: readonly string[]
  readonly service: TestService

  private constructor(dir: string, service: TestService, options: BenchOptions) {
    this.dir = dir
    this.mountpoint = join(dir, 'drive')
    this.stateDir = join(dir, 'state')
    this.service = service
    this.#hasSmallDisk = options.stateBytes !== undefined
    this.#bridge = options.bridge === undefined ? [] : ['--bridge', options.bridge]
    mkdirSync(this.mountpoint)
    mkdirSync(this.stateDir)
    if (options.stateBytes !== undefined) mountSmallDisk(this.stateDir, options.stateBytes)
  }

  static async start(options: BenchOptions = {}): Promise<Bench> {
    const parent = options.isHome === true ? '/tmp' : tmpdir()
    const dir = mkdtempSync(join(parent, 'bagfs-test-'))
    return new Bench(dir, await TestService.start(join(dir, 'service'), options), options)
  }

  /** Mounts the drive of this bench, through the fault proxy; the state directory stays the same. */
  async mount(...args: readonly string[]): Promise<MountedDrive> {
    const { service, mountpoint, stateDir } = this
    const drive = await MountedDrive.mount(
      { url: service.proxy.url, token: service.token },
      { mountpoint, stateDir },
      [...this.#bridge, ...args],
    )
    this.#drives.push(drive)
    return drive
  }

  /** Mounts the same account as another machine does: on another path, with a state directory of its own. */
  async mountOther(...args: readonly string[]): Promise<MountedDrive> {
    const { service, dir } = this
    const drive = await MountedDrive.mount(
      { url: service.proxy.url, token: service.token },
      { mountpoint: join(dir, 'other-drive'), stateDir: join(dir, 'other-state') },
      [...this.#bridge, ...args],
    )
    this.#drives.push(drive)
    return drive
  }

  /** As `mountOther`, on the path of `mount`. */
  async mountAnother(...args: readonly string[]): Promise<MountedDrive> {
    const { service, dir, mountpoint } = this
    const drive = await MountedDrive.mount(
      { url: service.proxy.url, token: service.token },
      { mountpoint, stateDir: join(dir, 'other-state') },
      [...this.#bridge, ...args],
    )
    this.#drives.push(drive)
    return drive
  }

  /** As `mount`, on another path. */
  async mountElsewhere(...args: readonly string[]): Promise<MountedDrive> {
    const { service, dir, stateDir } = this
    const drive = await MountedDrive.mount(
      { url: service.proxy.url, token: service.token },
      { mountpoint: join(dir, 'elsewhere'), stateDir },
      [...this.#bridge, ...args],
    )
    this.#drives.push(drive)
    return drive
  }

  /** As `mount`; the drive kills itself at a step (src/outbox/steps.ts). */
  async mountKilledAt(step: string, ...args: readonly string[]): Promise<MountedDrive> {
    const { service, mountpoint, stateDir } = this
    const drive = await MountedDrive.mount(
      { url: service.proxy.url, token: service.token },
      { mountpoint, stateDir },
      [...this.#bridge, ...args],
      { BAGFS_CRASH_AT: step },
    )
    this.#drives.push(drive)
    return drive
  }

  /** As `mount`, without waiting for it. */
  begin(...args: readonly string[]): MountedDrive {
    const { service, mountpoint, stateDir } = this
    const drive = MountedDrive.spawn(
      { url: service.proxy.url, token: service.token },
      { mountpoint, stateDir },
      [...this.#bridge, ...args],
    )
    this.#drives.push(drive)
    return drive
  }

  /** Runs the program to its end, as a person would type it who has no drives but those of this bench. */
  async bagfs(
    args: readonly string[],
    options: { readonly env?: Record<string, string> } = {},
  ): Promise<Outcome> {
    const result = await execa(process.execPath, [PROGRAM, ...args], {
      timeout: HANGING_MS,
      killSignal: 'SIGKILL',
      reject: false,
      env: { ...placesIn(this.dir), ...options.env },
    })
    if (result.timedOut) throw new Error(`This did not end: bagfs ${args.join(' ')}`)
    return { code: result.exitCode, stdout: result.stdout, stderr: result.stderr }
  }

  /** Runs `bagfs mount` for this bench's account: in the background, unless the arguments say otherwise. */
  async mountBy(...args: readonly string[]): Promise<Outcome> {
    const { service, mountpoint, stateDir } = this
    const tokenFile = join(this.dir, 'token')
    writeFileSync(tokenFile, service.token, { mode: 0o600 })
    return this.bagfs([
      'mount',
      mountpoint,
      ...['--url', service.proxy.url, '--token-file', tokenFile, '--state-dir', stateDir],
      ...USUAL,
      ...this.#bridge,
      ...args,
    ])
  }

  /** Starts a command of this bench and does not wait for its end; the caller ends it. */
  start(args: readonly string[], env: Readonly<Record<string, string>> = {}): ChildProcess {
    return spawn(process.execPath, [PROGRAM, ...args], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, ...placesIn(this.dir), ...env },
    })
  }

  /** As `start`, at a terminal of its own. */
  atTerminal(args: readonly string[]): Terminal {
    return Terminal.start([process.execPath, PROGRAM, ...args], {
      cwd: process.cwd(),
      env: { ...process.env, ...placesIn(this.dir) },
    })
  }

  async close(): Promise<void> {
    for (const drive of this.#drives) await drive.kill()
    if (isMounted(this.mountpoint)) {
      await this.bagfs(['umount', '--now', this.mountpoint])
    }
    if (isMounted(this.mountpoint)) spawnSync('fusermount', ['-uz', this.mountpoint])
    await this.service.close()
    if (this.#hasSmallDisk) unmountSmallDisk(this.stateDir)
    rmSync(this.dir, { recursive: true, force: true })
  }
}
