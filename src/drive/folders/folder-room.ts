import type { IntentId } from '../../domain/ids.ts'
import type { PutIntent } from '../../intents/intent.ts'
import type { Logger } from '../../domain/logger.ts'
import type { Archive } from '../../zip/archive.ts'
import { walkTree, type ArchiveNode, type DirectoryNode } from '../../zip/tree.ts'
import { failedForWantOfRoom } from '../../outbox/failure.ts'
import type { Outbox } from '../../outbox/outbox.ts'
import { RoomBeside } from '../root/room-beside.ts'
import { RoomGroup } from '../space/room.ts'
import type { Space } from '../space/space.ts'
import type { Folder } from './folder.ts'
import { itemsOf } from './items.ts'

interface FolderRoomDeps {
  readonly folder: Folder
  readonly space: Space
  readonly outbox: Pick<Outbox, 'put'>
  /** The intent that holds the changes, or that the next change goes into. */
  readonly intentId: () => IntentId | undefined
  /** Operations of the journal so far. */
  readonly operations: () => number
  readonly log: Logger
}

/**
 * The room that the next zip of a folder takes of the account, beside the zip that is stored: what was
 * written here, and what is carried over from the old zip.
 */
export class FolderRoom {
  readonly group: RoomGroup
  readonly #deps: FolderRoomDeps
  /** What is carried of a zip, once it was counted; never less than what is. */
  #counted: { readonly archive: Archive; readonly bytes: number } | undefined
  readonly #beside: RoomBeside

  constructor(deps: FolderRoomDeps) {
    this.#deps = deps
    this.group = new RoomGroup(deps.space, () => deps.folder.node.name, {
      isCounted: () => !failedForWantOfRoom(this.#intent()),
      isWaiting: () => this.#isWaiting(),
      carried: {
        bytes: () => (this.#intent()?.content.from === 'folder' ? this.#carriedBytes() : 0),
        recount: () => {
          this.#recount()
        },
      },
    })
    this.#beside = new RoomBeside(deps, {
      name: () => deps.folder.node.name,
      group: this.group,
      unheldBytes: () => this.#unheldBytes(),
      recount: () => {
        this.#recount()
      },
    })
  }

  /** The folder has changes from now on, or has none any more. */
  noteChanges(are: boolean): void {
    if (!are) this.#beside.forget()
    this.group.stand(are)
  }

  /** True while room is held for all that is in the folder: it has changes, and can be sent. */
  get isHeld(): boolean {
    return this.group.isInUse && this.group.isCounted()
  }

  /** Content of the old zip came back into the tree. */
  noteTakenBack(): void {
    this.#counted = undefined
  }

  /** Counts anew where the folder seems too large: what was changed or removed is not carried any more. */
  recountIfShort(): void {
    if (!this.#beside.fits()) this.#recount()
  }

  /**
   * Throws `no-space` when the folder could not be stored with one change more, after asking the service
   * once more. `growth` is what the change adds to its next zip; less than 0 for what is not carried any more.
   */
  async check(growth = 0): Promise<void> {
    await this.#beside.check(growth)
  }

  close(): void {
    this.#beside.forget()
    this.group.stand(false)
  }

  /** What another change would make the folder take, beside what it takes already. */
  #unheldBytes(): number {
    const intent = this.#intent()
    if (intent === undefined) return this.#carriedBytes()
    // The room of a zip that waits, or is on its way, is that of the next one: the old bag goes in between.
    const isCounted = intent.content.from === 'folder' || !failedForWantOfRoom(intent)
    return isCounted ? 0 : this.#carriedBytes()
  }

  /** True while the zip that waits has all that is in the folder, and no program writes there. */
  #isWaiting(): boolean {
    const { folder, operations } = this.#deps
    const intent = this.#intent()
    const isPacked = intent?.content.from === 'staged' && intent.changes?.packed === operations()
    return isPacked && folder.openFiles === folder.openReaders
  }

  #intent(): PutIntent | undefined {
    return this.#deps.outbox.put(this.#deps.intentId())
  }

  /** Of the zip that the next one is made from; that of a folder made or emptied here has none. */
  #carriedBytes(): number {
    const { archive } = this.#deps.folder
    const intent = this.#intent()
    const isNew = intent?.content.from === 'folder' && intent.changes?.base === undefined
    if (archive === undefined || isNew) return 0
    return this.#counted?.archive === archive ? this.#counted.bytes : archive.source.length
  }

  #recount(): void {
    const { archive, top } = this.#deps.folder
    if (archive === undefined) return
    let bytes = archive.source.length - zippedBytes(archive.root)
    for (const item of itemsOf(top)) {
      if (item.type === 'directory') {
        if (item.children === undefined) bytes += zippedBytes(item.archived)
      } else if (item.type === 'file' && item.content.from === 'archive') {
        bytes += sizeIn(item.content.node)
      }
    }
    this.#counted = { archive, bytes: Math.max(bytes, 0) }
  }
}

/** Bytes that everything below a directory of a zip has there. */
function zippedBytes(top: DirectoryNode | undefined): number {
  let bytes = 0
  if (top === undefined) return 0
  for (const node of walkTree(top)) bytes += sizeIn(node)
  return bytes
}

function sizeIn(node: ArchiveNode): number {
  return node.type === 'directory' ? 0 : node.member.compressedSize
}
