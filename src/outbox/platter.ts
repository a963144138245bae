import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { GroupSync, type SyncFileSystem } from '../disk/group-sync.ts'
import type { Clock } from '../domain/clock.ts'
import type { IntentId } from '../domain/ids.ts'
import type { Logger } from '../domain/logger.ts'
import type { Intent } from '../intents/intent.ts'
import { CONTENT_FILE, INTENT_FILE } from './layout.ts'

interface PlatterDeps {
  readonly clock: Clock
  readonly log: Logger
  readonly syncFileSystem?: SyncFileSystem
}

/** Of an intent: what is sent, and the files of a folder that it is packed of. */
export type Part = 'content' | 'changes'

/** The groups of the first and the last write of an intent. */
interface Groups {
  readonly first: number
  readonly last: number
}

/** An intent as an older version kept it, until what it is now is on the platter. */
interface Kept {
  readonly id: IntentId
  readonly path: string
  readonly group: number
}

/** What of the intents is on the platter, and what a power cut, or a disk that fails, may have taken of them. */
export class Platter {
  readonly #deps: PlatterDeps
  readonly #dir: string
  /** What of the outbox, and of what lies in it, is on the platter. */
  readonly sync: GroupSync
  /** Of intents that a power cut must not take, and each later write of theirs neither. `forget` removes. */
  readonly #groups = new Map<IntentId, Groups>()
  #kept: readonly Kept[] = []
  /** Intents of which a part may not be what was written, and which nothing has compared with its sum yet. */
  readonly #unchecked = { content: new Set<IntentId>(), changes: new Set<IntentId>() }

  constructor(deps: PlatterDeps, dir: string) {
    this.#deps = deps
    this.#dir = dir
    this.sync = new GroupSync(deps, dir)
    this.sync.onDone((group) => {
      this.#dropKept(group)
    })
    this.sync.onFailure((group) => {
      for (const [id, { last }] of this.#groups) if (last === group) this.#noteUnchecked(id)
    })
  }

  /** An earlier process left it, and files of what it was before. */
  noteFound(intent: Intent, kept: readonly string[]): void {
    this.#noteUnchecked(intent.id)
    const group = this.note(intent)
    this.#kept = [...this.#kept, ...kept.map((path) => ({ id: intent.id, path, group }))]
  }

  /** What an earlier process wrote last may not be on the platter either. */
  noteDirectory(): void {
    if (this.#groups.size > 0) this.sync.note([this.#dir])
  }

  /** True for an intent that a power cut must not take. */
  isNoted(id: IntentId): boolean {
    return this.#groups.has(id)
  }

  /** Its file is to be on the platter; answers the group that it is in. */
  note({ id, kind }: Intent): number {
    const dir = join(this.#dir, id)
    const content = kind === 'put' ? [join(dir, CONTENT_FILE)] : []
    const group = this.sync.note([...content, join(dir, INTENT_FILE), dir])
    this.#groups.set(id, { first: this.#groups.get(id)?.first ?? group, last: group })
    return group
  }

  #dropKept(group: number): void {
    const outdated = this.#kept.filter((kept) => kept.group <= group)
    this.#kept = this.#kept.filter((kept) => kept.group > group)
    for (const { path } of outdated) {
      rm(path, { force: true }).catch((error: unknown) => {
        this.#deps.log.warn({ path, error: String(error) }, 'What a change was stays behind.')
      })
    }
  }

  /** True for a put that was written a moment ago and never sent: neither it nor what took its place is promised to survive. */
  isOfThisMoment(id: IntentId, intent: Intent | undefined): boolean {
    const isSent = intent?.kind !== 'put' || intent.sentAtMs !== undefined
    return (
      !isSent &&
      this.#groups.get(id)?.first === this.sync.group &&
      !this.#kept.some((kept) => kept.id === id)
    )
  }

  /** Without them an intent is gone once its file is. */
  async removeKept(id: IntentId): Promise<void> {
    for (const kept of this.#kept) if (kept.id === id) await rm(kept.path, { force: true })
  }

  /** The intent is gone. */
  forget(id: IntentId): void {
    this.#groups.delete(id)
    this.noteWhole('content', id)
    this.noteWhole('changes', id)
  }

  /**
   * True for what an earlier process left, or that the disk failed to keep, until `noteWhole`: a power cut
   * and a failed sync leave zeros of the right length.
   */
  isUnchecked(part: Part, id: IntentId): boolean {
    return this.#unchecked[part].has(id)
  }

  /** This part is what it says. */
  noteWhole(part: Part, id: IntentId): void {
    this.#unchecked[part].delete(id)
  }

  #noteUnchecked(id: IntentId): void {
    this.#unchecked.content.add(id)
    this.#unchecked.changes.add(id)
  }
}
