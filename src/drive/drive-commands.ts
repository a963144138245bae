import type { IntentId } from '../domain/ids.ts'
import { discardIntents } from '../outbox/discard.ts'
import type { DriveDeps, DriveParts } from './assemble.ts'
import type { Explanation } from './explanation.ts'
import type { Walk } from './find-top.ts'
import type { PinReport } from './pins.ts'
import { syncNow } from './sync.ts'
import type { WarmedUp, WarmUpOptions } from './warm-up.ts'

/** What a person asks of a drive by commands and by its page, and no program by a system call. */
export class DriveCommands {
  readonly #deps: DriveDeps
  readonly #parts: DriveParts
  readonly #walk: Walk
  /** What was changed here and on another machine. */
  readonly conflicts: DriveParts['conflicts']
  /** What folders were stored without. */
  readonly leftOut: DriveParts['leftOut']
  /** What was deleted or replaced, and how it comes back. */
  readonly trash: DriveParts['trash']
  /** What is pinned, and how it is kept here. */
  readonly pins: DriveParts['pins']

  constructor(deps: DriveDeps, parts: DriveParts, walk: Walk) {
    this.#deps = deps
    this.#parts = parts
    this.#walk = walk
    this.conflicts = parts.conflicts
    this.leftOut = parts.leftOut
    this.trash = parts.trash
    this.pins = parts.pins
  }

  /** What is at a path, by its names from the root. Rejects `not-found` where nothing is known of it. */
  explain(names: readonly string[]): Promise<Explanation> {
    return this.#parts.explainer.explain(names, this.#walk)
  }

  /** Fetches what is at a path ahead of its readers, without names all of the account. See `WarmUp`. */
  warmUp(names: readonly string[], options: WarmUpOptions): Promise<WarmedUp> {
    return this.#parts.warmUp.fetch(names, this.#walk, options)
  }

  /** Keeps the file or folder of the root that a path is, or is in, on this machine. See `Pins`. */
  pin(names: readonly string[]): Promise<PinReport> {
    return this.pins.pin(names, this.#walk)
  }

  /** Asks the service what there is; resolves with the number of bags. Rejects with the service's error. */
  async refresh(): Promise<number> {
    await this.#deps.listing.refreshNow()
    await this.#parts.entries.fresh()
    return this.#parts.entries.records().length
  }

  /**
   * Resolves when the service has what was closed or synced under a name of the root, or under any. Answers the
   * paths of files that programs still write: these are sent when they are closed.
   */
  async sync(name?: string): Promise<readonly string[]> {
    const { unclosed } = this.#parts
    await unclosed.promiseClosed()
    await syncNow({ ...this.#deps, ...this.#parts }, name)
    return unclosed.pathsBeingWritten(name)
  }

  /** Forgets changes because a person says so. Rejects as `discardIntents`. */
  async discard(ids: readonly IntentId[]): Promise<void> {
    const { jobs, openFolders } = this.#parts
    openFolders.refuseWritten(ids)
    this.forgetChanges(await discardIntents(this.#deps.outbox, ids, jobs))
  }

  /** These changes are in no outbox any more: their folders show what is stored. */
  forgetChanges(ids: readonly IntentId[]): void {
    this.#parts.openFolders.forgetChanges(ids)
  }
}
