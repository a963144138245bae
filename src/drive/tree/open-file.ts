import type { Clock } from '../../domain/clock.ts'
import { DriveError, isDriveError } from '../../domain/errors.ts'
import type { NodeId } from '../../domain/ids.ts'
import type { WholeFile } from '../../domain/whole-file.ts'
import type { DiskSpan, ShareRange } from './share-range.ts'
import type { Source } from './source.ts'
import type { StagedFile } from './staged-file.ts'

/** How a file is opened. */
export interface OpenMode {
  readonly writable: boolean
  /** Each write goes to the end of the file, wherever that is (O_APPEND). */
  readonly append?: boolean
  /** Reading it moves no atime (O_NOATIME). */
  readonly keepsAtime?: boolean
}

/** What an open file reads now: its length in bytes, and the file of the local disk that is just that, if there is one. */
export interface OnDisk {
  readonly length: number
  /** To be used at once: a later write may make it another. */
  readonly fd: number | undefined
}

/** What a bridge knows of a write. */
export interface WriteOptions {
  /** It goes to the end of the file; the position is where the kernel takes that to be. */
  readonly isAppended?: boolean
}

/**
 * An open file. Reading, writing and cutting are here, once for all homes of files. A home says where the
 * bytes are, what may be written in place, and what close promises.
 */
export abstract class OpenFile {
  readonly writable: boolean
  readonly append: boolean
  /** The kernel may take another version's size for the end of this file. */
  endIsUnsure = false
  readonly #clock: Clock
  /** True once a further read moves nothing. */
  #isReadNoted: boolean
  /** A write that failed before there was staged content that could note it. */
  #unstaged:
    { readonly position: number; readonly length: number; readonly error: unknown } | undefined

  constructor(clock: Clock, { writable, append = false, keepsAtime = false }: OpenMode) {
    this.#isReadNoted = keepsAtime
    this.#clock = clock
    this.writable = writable
    this.append = append
  }

  /** The node that this is now; undefined for what the drive makes up. */
  abstract get nodeId(): NodeId | undefined
  /** What is read now; a promise where that has to be opened first. */
  protected abstract source(): Source | Promise<Source>
  /** Staged content that a write may change at once; undefined where `stage` is needed. */
  protected abstract draft(): StagedFile | undefined
  /** Makes the content changeable; with `empty` the old bytes are not needed. */
  protected abstract stage(options: { readonly empty: boolean }): Promise<StagedFile>
  /** True while this is what the file has and a write may change it. */
  protected abstract isCurrent(staged: StagedFile): boolean
  /** Makes what was written as safe as this home promises. `closes` is false when other descriptors may share it. */
  protected abstract keep(options: { readonly closes: boolean }): Promise<void>
  /** The last user of this open file is gone. */
  abstract close(): Promise<void>

  /** Bytes read; a number at once when the bytes are here, else a promise. 0 at the end. */
  read(buffer: Uint8Array, position: number): number | Promise<number> {
    if (!this.#isReadNoted) this.noteRead()
    const source = this.source()
    if (source instanceof Promise) return readLater(source, buffer, position)
    return source.readNow(buffer, position) ?? source.read(buffer, position)
  }

  /**
   * It is read: now, or by a kernel that need not ask for what it reads. Answers the atime that it gets; undefined where
   * that stays. Writes nothing to the disk.
   */
  noteRead(): number | undefined {
    if (this.#isReadNoted) return undefined
    this.#isReadNoted = true
    const nowMs = this.#clock.now()
    return this.moveAtime?.(nowMs) === true ? nowMs : undefined
  }

  /** False when atime stays, see `Accesses`. What the drive makes up has none that moves. */
  protected moveAtime?(nowMs: number): boolean

  /** The kernel goes on with bytes that it has of this file from an earlier open file. For homes whose content may prove wrong. */
  noteKept?(): void

  /** How long it is now, in bytes. */
  async length(): Promise<number> {
    return (await this.source()).length()
  }

  async onDisk(): Promise<OnDisk> {
    const length = await this.length()
    return { length, fd: (await this.source()).fd }
  }

  /** What is read, when it is whole in a file of the local disk and nothing is staged; undefined where a home has none such. */
  wholeFile(): WholeFile | undefined {
    return undefined
  }

  /** Writes all of `bytes`; a number at once in the common case. */
  write(
    bytes: Uint8Array,
    position: number,
    { isAppended = this.append && this.endIsUnsure }: WriteOptions = {},
  ): number | Promise<number> {
    if (!this.writable) throw new DriveError('bad-handle', 'This file is open for reading only.')
    const draft = this.draft()
    if (draft !== undefined) {
      const at = isAppended ? draft.size : position
      if (draft.fits(Math.max(draft.size, at + bytes.length))) {
        try {
          return this.#put(draft, bytes, at, position)
        } catch (error) {
          if (!isDriveError(error, 'local-disk-full')) throw error
        }
      }
    }
    return this.#writeSlowly(Buffer.from(bytes), position, isAppended)
  }

  /** As `write`, of bytes that a file of the local disk has and shares; false where they have to be written. */
  shareFrom(span: DiskSpan, position: number, share: ShareRange): boolean {
    const draft = this.writable && !this.append ? this.draft() : undefined
    const end = position + span.length
    if (draft === undefined || !draft.fits(Math.max(draft.size, end))) return false
    return draft.shareFrom(span, position, { share, nowMs: this.#clock.now() })
  }

  /** Makes what it can of the way free: content is copied, the account asked, and room made on a full disk. */
  async #writeSlowly(bytes: Uint8Array, position: number, isAppended: boolean): Promise<number> {
    let mayMakeRoom = true
    for (;;) {
      const staged = await this.#stageFor(position, bytes.length)
      const at = isAppended ? staged.size : position
      try {
        await staged.check(Math.max(staged.size, at + bytes.length))
      } catch (error) {
        throw staged.failed(at, bytes.length, error)
      }
      // While the room was asked for, the content may have been promised: then the next one is written.
      if (!this.isCurrent(staged)) continue
      try {
        return this.#put(staged, bytes, isAppended ? staged.size : position, position)
      } catch (error) {
        if (!isDriveError(error, 'local-disk-full') || !mayMakeRoom) throw error
        if (!(await staged.room.makeDiskRoom(bytes.length))) throw error
        mayMakeRoom = false
      }
    }
  }

  async #stageFor(position: number, length: number): Promise<StagedFile> {
    try {
      const staged = await this.stage({ empty: false })
      const failed = this.#unstaged
      this.#unstaged = undefined
      if (failed !== undefined) staged.failed(failed.position, failed.length, failed.error)
      return staged
    } catch (error) {
      this.#unstaged ??= { position, length, error }
      throw error
    }
  }

  /** A program that did not look at its write learns of the failure here. */
  #refuseUnstaged(): void {
    if (this.#unstaged !== undefined) throw this.#unstaged.error
  }

  #put(staged: StagedFile, bytes: Uint8Array, at: number, position: number): number {
    if (at !== position) this.noteOtherSize(this.#clock.now())
    staged.write(bytes, at, this.#clock.now())
    return bytes.length
  }

  /** The file does not end where the kernel believes. */
  protected abstract noteOtherSize(nowMs: number): void

  /** Cuts or lengthens the file: the version that was opened, whatever its name leads to by now. */
  async truncate(length: number): Promise<void> {
    for (;;) {
      const staged = await this.stage({ empty: length === 0 })
      await staged.room.refuseBeyondLimit(length)
      await staged.check(length)
      await staged.prepareCut(length)
      if (this.isCurrent(staged)) {
        staged.truncate(length, this.#clock.now())
        return
      }
    }
  }

  /** The node that a close would upload, when no other open file writes the same content. */
  uploadedOnClose(): NodeId | undefined {
    return undefined
  }

  /** What each close of a descriptor does; others may go on with the same open file. */
  async flush(): Promise<void> {
    if (!this.writable) return
    this.#refuseUnstaged()
    await this.keep({ closes: false })
  }

  async fsync(): Promise<void> {
    this.#refuseUnstaged()
    await this.keep({ closes: true })
  }
}

async function readLater(
  source: Promise<Source>,
  buffer: Uint8Array,
  position: number,
): Promise<number> {
  return (await source).read(buffer, position)
}
