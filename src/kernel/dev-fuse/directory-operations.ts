import type { NodeId } from '../../domain/ids.ts'
import type { Attributes } from '../../drive/tree/attributes.ts'
import { DONE, type KernelAnswer } from './answer.ts'
import type { Operations, SessionContext } from './context.ts'
import { DirectoryPage, type PageEntry } from './directory-page.ts'
import { asInKernel, encodeEntryInto, lookUpNow, onNode } from './entries.ts'
import { MAX_TRANSFER_BYTES } from './negotiation.ts'
import type { KernelRequest } from './request.ts'
import { OPEN_OUT, READ_IN, RELEASE_IN } from './structures.ts'

export function directoryOperations(context: SessionContext): Operations {
  const { drive, directories, ids } = context
  return {
    OPENDIR: ({ node }) => {
      const open = (): KernelAnswer => {
        const handle = directories.open(node)
        return {
          parts: [OPEN_OUT.encode({ handle, flags: 0, backingId: 0 })],
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
  const { drive, directories } = context
  const { handle, offset, size } = READ_IN.decode(body)
  const page = new DirectoryPage(Math.min(size, MAX_TRANSFER_BYTES))
  const entries = await directories.entries(handle, {
    isBeginning: offset === 0,
    read: (of) => onNode(context, of, (now) => drive.readDirectory(now)),
  })
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
      for (const { found, name } of told) {
        context.lookups.add(found.node, { parent: node, name, kind: found.kind })
      }
    },
  }
}

interface ToldEntry {
  readonly found: Attributes
  readonly name: string
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
  const found = asInKernel(context, inDrive)
  const { name, offset } = shown
  const isAdded = page.addPlus(
    { name, offset, inode: found.node, kind: found.kind },
    (bytes, start) => {
      encodeEntryInto(found, context.settings, bytes, start)
    },
  )
  if (!isAdded) return false
  told.push({ found, name })
  return true
}
