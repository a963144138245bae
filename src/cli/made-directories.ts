import { collectStatus, type AboutDrive } from '../control/status.ts'
import type { DriveStatus } from '../control/protocol.ts'
import type { BagCache } from '../content/bag-cache.ts'
import type { Clock } from '../domain/clock.ts'
import { Contents } from '../drive/contents.ts'
import type { Drive } from '../drive/drive.ts'
import { BagsDirectory } from '../drive/virtual/bags-directory.ts'
import { controlDirectory } from '../drive/virtual/control-directory.ts'
import { MadeTree } from '../drive/virtual/made-tree.ts'
import type { MadeDirectory } from '../drive/virtual/made-entry.ts'
import type { Listing } from '../namespace/listing.ts'
import type { Outbox } from '../outbox/outbox.ts'
import type { Uploader } from '../outbox/uploader.ts'
import type { DriveService } from '../service/drive-service.ts'
import type { FactsStore } from '../state/facts-store.ts'
import { toPrintable, toPrintableJson } from './printable.ts'
import { describeStatus } from './status-words.ts'

export interface MadeDirectoriesDeps {
  readonly drive: Drive
  readonly service: DriveService
  readonly listing: Listing
  readonly cache: BagCache
  readonly outbox: Outbox
  readonly uploader: Uploader
  readonly facts: FactsStore
  readonly clock: Clock
}

/** What the drive tells of itself, for its socket and its made-up files alike. */
export interface SelfReport {
  readonly status: () => DriveStatus
  readonly contents: Contents
}

/** Shows `.bagfs` and `.bags` in the drive, hidden from listings. */
export function attachMadeDirectories(deps: MadeDirectoriesDeps, about: AboutDrive): SelfReport {
  const { drive, listing, clock } = deps
  const contents = new Contents(deps)
  const status = (): DriveStatus =>
    collectStatus(
      {
        ...deps,
        conflicts: () => drive.conflicts.list(),
        roomHolders: () => drive.roomHolders(),
        refused: () => drive.refusedChanges(),
        nameOf: (bagId) => listing.current()?.index.recordsOf(bagId)[0]?.name,
      },
      about,
    )
  const texts = {
    text: () => printableLines(describeStatus(status(), clock.now())),
    json: () => `${toPrintableJson(status())}\n`,
  }
  const attach = (name: string, directory: MadeDirectory): void => {
    drive.attach(name, (ids) => {
      const subtree = new MadeTree({ ids, clock }, directory)
      return { subtree, top: subtree.top }
    })
  }
  attach('.bagfs', controlDirectory({ ...deps, contents, status: texts }))
  attach('.bags', new BagsDirectory(deps))
  return { status, contents }
}

/** People will `cat` this to a terminal, and names may hold anything. */
function printableLines(text: string): string {
  return text.split('\n').map(toPrintable).join('\n')
}
