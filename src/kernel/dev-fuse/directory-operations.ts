import type { NodeId } from '../../domain/ids.ts'
import { DONE, type KernelAnswer } from './answer.ts'
import type { Operations, SessionContext } from './context.ts'
import { DirectoryPage, type PageEntry } from './directory-page.ts'
import {
  encodeEntryInto,
  lookUpNow,
  noteTold,
  onNode,
  toldEntry,
  type ToldEntry,
} from './entries.ts'
import { MAX_TRANSFER_BYTES } from './negotiation.ts'
import type { KernelRequest } from './request.ts'
import { OPEN_OUT, READ_IN, RELEASE_IN } from './structures.ts'

/** Flags of an open directory. */
const KEEP_CACHE = 1 << 1
const CACHE_DIR = 1 << 3

export function directoryOperations(context: SessionContext): Operations {
  const { drive, directories, ids } = context
  return {
    OPENDIR: ({ node }) => {
      const open = (): KernelAnswer => {
        const handle = directories.open(node)
        return {
          parts: [OPEN_OUT.encode({ handle, flags: flagsOf(context, node), backingId: 0 })],
          onLost: () => {
            directories.close(handle)
          },
        }
      }
      // One that is gone is told now: the kernel looks for its name again here, and not once it is read.
      const isKnown = drive.knows(ids.inDrive(node))
      return isKnown ? open() : onNode(context, node, (now) => drive.getAttributes(now)).then(open)
    },
    READDIR: (request) => readPage(context, request, { isPlus: false }),
    READDIRPLUS: (request) => readPage(context, request, { isPlus: true }),
    RELEASEDIR: ({ body }) => {
      directories.close(RELEASE_IN.decode(body).handle)
      return DONE
    },
    FSYNCDIR: async () => {
      await context.drive.fsyncDirectory()
      return DONE
    },
  }
}

async function readPage(
  context: SessionContext,
  { node, body }: KernelRequest,
  { isPlus }: { readonly isPlus: boolean },
): Promise<KernelAnswer> {
  const { drive, directories, trust } = context
  const { handle, offset, size } = READ_IN.decode(body)
  const page = new DirectoryPage(Math.min(size, MAX_TRANSFER_BYTES))
  // What changes while they are read makes a later version.
  const before = trust.directoryVersion(node)
  const versionOfRead = (): string | undefined => before ?? trust.directoryVersion(node)
  const entries = await directories.entries(handle, {
    isBeginning: offset === 0,
    version: versionOfRead,
    read: (of) => onNode(context, of, (now) => drive.readDirectory(now)),
  })
  const version = versionOfRead()
  const itself: readonly PageEntry[] = [
    { name: '.', kind: 'directory', inode: node, offset: 1 },
    { name: '..', kind: 'directory', offset: 2 },
  ]
  const told: ToldEntry[] = []
  for (let at = offset; at < entries.length + itself.length; at += 1) {
    const entry = entries[at - itself.length]
    const shown = itself[at] ?? (entry && { name: entry.name, kind: entry.kind, offset: at + 1 })
    if (shown === undefined) break
    const isAdded = isPlus
      ? addPlus({ context, page, node, told }, shown, entry !== undefined)
      : page.add(shown)
    if (!isAdded) break
  }
  return {
    parts: [page.bytes],
    onDelivered: () => {
      const isMixed = version !== undefined && directories.isReadOtherwise(node, version, handle)
      if (isMixed || (offset > 0 && !isPlus)) trust.forgetDirectory(node)
      else if (offset === 0) trust.noteRead(node, version)
      for (const one of told) noteTold(context, one)
    },
  }
}

/** The kernel keeps names that it has read, and goes on with those of before where they are as they were. */
function flagsOf({ trust, directories }: SessionContext, node: NodeId): number {
  const version = trust.directoryVersion(node)
  if (version === undefined || directories.isReadOtherwise(node, version)) return 0
  return trust.hasNames(node) ? CACHE_DIR | KEEP_CACHE : CACHE_DIR
}

interface PlusPage {
  readonly context: SessionContext
  readonly page: DirectoryPage
  readonly node: NodeId
  /** Nodes that the kernel is told of, and counts. */
  readonly told: ToldEntry[]
}

function addPlus(plus: PlusPage, shown: PageEntry, isChild: boolean): boolean {
  const { context, page, node, told } = plus
  const inDrive = isChild ? lookUpNow(context, node, shown.name) : undefined
  if (inDrive === undefined) return page.addPlus(shown, undefined)
  const { name, offset } = shown
  const inode = context.ids.inKernel(inDrive.node)
  const entry = toldEntry(context, inDrive, { parent: node, name }, inode)
  const isAdded = page.addPlus({ name, offset, inode, kind: inDrive.kind }, (bytes, start) => {
    encodeEntryInto(entry, context.settings, bytes, start)
  })
  if (!isAdded) return false
  told.push(entry)
  return true
}
