import { constants } from 'node:os'
import { systemClock, type Clock } from '../../src/domain/clock.ts'
import { deferred } from '../../src/domain/deferred.ts'
import type { Logger } from '../../src/domain/logger.ts'
import type { Drive } from '../../src/drive/drive.ts'
import type { BridgeSettings } from '../../src/kernel/bridge.ts'
import type { BackingFiles } from '../../src/kernel/dev-fuse/backing-files.ts'
import type { Channel } from '../../src/kernel/dev-fuse/channel.ts'
import type { ShareRange } from '../../src/drive/tree/share-range.ts'
import { loadLibc, type SeekExtent } from '../../src/kernel/dev-fuse/libc.ts'
import { OPCODES, type OpcodeName } from '../../src/kernel/dev-fuse/opcodes.ts'
import { Session } from '../../src/kernel/dev-fuse/session.ts'
import type { OperationWatch } from '../../src/kernel/operation-watch.ts'
import {
  IN_HEADER,
  INIT_IN,
  INIT_IN_MORE,
  OUT_HEADER,
  UNIQUE_AT,
} from '../../src/kernel/dev-fuse/structures.ts'

/** What the kernel was told of a request. */
export interface Told {
  /** The name of an errno, or undefined for success. */
  readonly error: string | undefined
  readonly body: Buffer
}

const SETTINGS: BridgeSettings = {
  mountpoint: '/no/such/mount',
  readOnly: false,
  allowOther: false,
  uid: 1000,
  gid: 1000,
  umask: 0o022,
  thumbnailBytes: 2_000_000,
  passthrough: 'auto',
}
const LIBC = await loadLibc()
/** For a program without privilege. */
const NO_FILES: BackingFiles = {
  refusal: () => 'EPERM',
  add: () => ({ refusal: 'EPERM' }),
  remove: () => undefined,
}
/** As Linux 5.4 offers itself. */
export const OLD_KERNEL = { major: 7, minor: 31, maxReadahead: 1 << 17, flags: 0x03ff_fffb }
/** As Linux 6.18 does. */
const KERNEL = { major: 7, minor: 45, maxReadahead: 1 << 17, flags: 0x73ff_fffb }
/** Its second word of flags, PASSTHROUGH among them. */
const KERNEL_MORE = { flags2: 0x5fd }

export interface SyntheticKernelDeps {
  readonly drive: Drive
  readonly log: Logger
  readonly clock?: Clock
  readonly isToStop?: (pid: number) => boolean
  readonly watch?: OperationWatch
  readonly backingFiles?: BackingFiles
  readonly seek?: SeekExtent
  readonly share?: ShareRange
  readonly settings?: Partial<BridgeSettings>
  /** Undefined for that of a new kernel. */
  readonly version?: typeof OLD_KERNEL | undefined
}

/** The other side of a session: asks, hears and counts, and mounts nothing. */
export class SyntheticKernel implements Channel {
  readonly session: Session
  /** What was told unasked, by code. */
  readonly notices: { readonly code: number; readonly body: Buffer }[] = []
  /** What each notice waits for before it is heard. */
  hearing: Promise<void> = Promise.resolve()
  /** How many answers each request got. */
  readonly answers = new Map<bigint, number>()
  /** Requests that the kernel does not wait for any more: it refuses their answers. */
  readonly gone = new Set<bigint>()
  readonly #asked = new Map<bigint, (told: Told) => void>()
  #next = 2n

  constructor(deps: SyntheticKernelDeps) {
    const { settings, ...given } = deps
    this.session = new Session(
      {
        clock: systemClock,
        backingFiles: NO_FILES,
        seek: LIBC.seek,
        share: LIBC.share,
        ...given,
        channel: this,
      },
      { ...SETTINGS, ...settings },
    )
  }

  static async start(deps: SyntheticKernelDeps): Promise<SyntheticKernel> {
    const kernel = new SyntheticKernel(deps)
    const init =
      deps.version === undefined
        ? [INIT_IN.encode(KERNEL), INIT_IN_MORE.encode(KERNEL_MORE), Buffer.alloc(44)]
        : [INIT_IN.encode(deps.version)]
    const { error } = await kernel.ask('INIT', 0, ...init)
    if (error !== undefined) throw new Error(`INIT: ${error}`)
    return kernel
  }

  /** A message as the kernel writes it. */
  static message(
    opcode: number,
    unique: bigint,
    node: number,
    parts: readonly Uint8Array[],
    pid = 1,
  ): Buffer {
    const body = Buffer.concat(parts)
    const length = IN_HEADER.size + body.length
    const header = IN_HEADER.encode({
      length,
      opcode,
      node,
      uid: 1000,
      gid: 1000,
      pid,
      extensionLength: 0,
    })
    header.writeBigUInt64LE(unique, UNIQUE_AT)
    return Buffer.concat([header, body])
  }

  /** Asks; the message is overwritten once it was taken, as the buffer of the bridge is. */
  ask(operation: OpcodeName, node: number, ...parts: readonly Uint8Array[]): Promise<Told> {
    return this.begin(operation, node, ...parts).told
  }

  begin(
    operation: OpcodeName,
    node: number,
    ...parts: readonly Uint8Array[]
  ): { readonly unique: bigint; readonly told: Promise<Told> } {
    const unique = this.#next
    this.#next += 2n
    const { promise, resolve } = deferred<Told>()
    this.#asked.set(unique, resolve)
    this.#give(SyntheticKernel.message(OPCODES[operation], unique, node, parts))
    return { unique, told: promise }
  }

  /** Tells something that has no answer. */
  tell(operation: OpcodeName, node: number, ...parts: readonly Uint8Array[]): void {
    this.#give(SyntheticKernel.message(OPCODES[operation], 0n, node, parts))
  }

  #give(message: Buffer): void {
    this.session.receive(message)
    message.fill(0xaa)
  }

  answer(parts: readonly Uint8Array[]): boolean {
    const bytes = Buffer.concat(parts)
    const { length, error } = OUT_HEADER.decode(bytes)
    if (length !== bytes.length) throw new Error(`It says ${length} bytes and has ${bytes.length}.`)
    const unique = bytes.readBigUInt64LE(UNIQUE_AT)
    this.answers.set(unique, (this.answers.get(unique) ?? 0) + 1)
    if (this.gone.has(unique)) return false
    this.#asked.get(unique)?.({ error: nameOf(-error), body: bytes.subarray(OUT_HEADER.size) })
    this.#asked.delete(unique)
    return true
  }

  notify(parts: readonly Uint8Array[]): Promise<void> {
    const bytes = Buffer.concat(parts)
    const { error } = OUT_HEADER.decode(bytes)
    this.notices.push({ code: error, body: bytes.subarray(OUT_HEADER.size) })
    return this.hearing
  }
}

function nameOf(errno: number): string | undefined {
  if (errno === 0) return undefined
  const found = Object.entries(constants.errno).find(([, number]) => number === errno)
  return found?.[0] ?? `errno ${errno}`
}

/** Texts as messages have them, each ended by NUL. */
export function texts(...all: readonly string[]): Buffer {
  return Buffer.from(all.map((text) => `${text}\0`).join(''))
}
