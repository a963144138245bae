import { constants as fsConstants } from 'node:fs'
import { DriveError } from '../../domain/errors.ts'
import type { HandleId, NodeId } from '../../domain/ids.ts'
import type { Attributes } from '../../drive/tree/attributes.ts'
import { ownerOfMade } from '../owner.ts'
import { flushFile } from '../flush-file.ts'
import { DONE, type KernelAnswer } from './answer.ts'
import type { Operations, SessionContext } from './context.ts'
import { digestOf } from './digest.ts'
import { encodeEntry, inDirectory, lookUpNow, noteTold, onNode, toldEntry } from './entries.ts'
import { NOT_TRUSTED } from './lookups.ts'
import { MAX_TRANSFER_BYTES } from './negotiation.ts'
import { readNames, type KernelRequest } from './request.ts'
import { MalformedMessage } from './structure.ts'
import { refuseLargeThumbnail } from './thumbnails.ts'
import * as wire from './structures.ts'

const ACCESS_MODE = 0o3
/** The kernel asks for each read, and cuts none at the size that it has. */
const DIRECT_IO = 1 << 0
/** The kernel may go on with the pages that it has of the file. */
const KEEP_CACHE = 1 << 1
/**
 * The kernel does not tell of closes (since Linux 5.16; others ignore it). Those of a reader promise nothing. A process that
 * serves its own drive also closes its descriptors where it starts a program, and could not answer at that moment.
 */
const NO_FLUSH = 1 << 5
/** The kernel reads the backing file. With KEEP_CACHE beside it, it refuses to open the file. */
const PASSTHROUGH = 1 << 7

export function fileOperations(context: SessionContext): Operations {
  const { drive, descriptors, handles, passthrough, settings } = context
  return {
    OPEN: (request) => open(context, request),
    CREATE: (request) => create(context, request),
    READ: (request) => read(context, request),
    WRITE: (request) => write(context, request),
    FLUSH: async ({ body, pid }) => {
      const handle = wire.FLUSH_IN.decode(body).handle as HandleId
      const opening = handles.openingOf(handle)
      const shared = opening === undefined ? {} : { shared: { opening, closer: pid } }
      await flushFile({ drive, descriptors }, settings.mountpoint, { handle, ...shared })
      await context.trust.heard()
      return DONE
    },
    FSYNC: async ({ body }) => {
      await drive.fsync(wire.FSYNC_IN.decode(body).handle as HandleId)
      await context.trust.heard()
      return DONE
    },
    RELEASE: async ({ node, body }) => {
      const handle = wire.RELEASE_IN.decode(body).handle as HandleId
      handles.remove(node, handle)
      passthrough.leave(node, handle)
      await drive.release(handle)
      return DONE
    },
  }
}

async function open(
  context: SessionContext,
  { node, body, pid }: KernelRequest,
): Promise<KernelAnswer> {
  const { drive, lookups, passthrough } = context
  const { flags } = wire.OPEN_IN.decode(body)
  const truncate = (flags & fsConstants.O_TRUNC) !== 0
  const writable = (flags & ACCESS_MODE) !== 0
  const writer = writable ? { writer: pid } : {}
  const closing = writable ? 0 : NO_FLUSH
  const handle = await onNode(context, node, async (now) => {
    if (!writable) await refuseLargeThumbnail(context, now, pid)
    return drive.open(now, {
      writable,
      truncate,
      append: (flags & fsConstants.O_APPEND) !== 0,
      isUncut: true,
      keepsAtime: (flags & fsConstants.O_NOATIME) !== 0,
    })
  })
  return orRelease(context, handle, async () => {
    const isMadeUp = drive.nodeOf(handle) === undefined
    if (isMadeUp) return opened(context, node, handle, { flags: DIRECT_IO | closing, ...writer })
    const attributes = await attributesOf(context, node)
    await tellOtherAttributes(context, node, attributes)
    const isSame = lookups.isSameVersion(node, versionOf(context, node, attributes))
    // The kernel cuts the file itself.
    if (truncate) lookups.noteWritten(node)
    const content = 'writer' in writer ? undefined : drive.wholeFileOf(handle)
    const backingId = passthrough.enter(node, handle, content)
    const kept = isSame && !truncate ? KEEP_CACHE : 0
    if (!writable && kept !== 0) drive.noteKept(handle)
    if (!writable) await noteRead(context, node, handle, { attributes, isKept: kept !== 0 })
    const how =
      backingId === undefined
        ? { flags: kept | closing }
        : { flags: PASSTHROUGH | closing, backingId }
    return opened(context, node, handle, { ...how, ...writer })
  })
}

/**
 * The kernel cuts reads at the size it last heard: a new one must not be read by the old size. Once it has forgotten
 * its attributes it asks, so no `open` waits until they have become too old. This notice takes no lock.
 *
 * It is told again what it was told to forget. A notice is lost on a kernel that has not made the node yet; a slow thread
 * then makes it by an answer from before. By now the node is there, as it is being opened.
 */
async function tellOtherAttributes(
  { lookups, notices }: SessionContext,
  node: NodeId,
  attributes: Attributes,
): Promise<void> {
  const told = lookups.told(node)
  if (told === undefined || told.digest === digestOf(attributes)) return
  lookups.tell(node, { digest: NOT_TRUSTED, atMs: told.atMs })
  await notices.forgetAttributes(node)
}

/** Before it is read. After a read the kernel asks for atime by itself, but not after one of pages that it has. */
async function noteRead(
  { drive, lookups, notices }: SessionContext,
  node: NodeId,
  handle: HandleId,
  { attributes, isKept }: { readonly attributes: Attributes; readonly isKept: boolean },
): Promise<void> {
  const atimeMs = drive.noteRead(handle)
  if (atimeMs === undefined) return
  const told = lookups.told(node)
  if (told?.digest !== digestOf(attributes)) return
  const digest = isKept ? NOT_TRUSTED : digestOf({ ...attributes, atimeMs })
  lookups.tell(node, { digest, atMs: told.atMs })
  if (isKept) await notices.forgetAttributes(node)
}

function attributesOf(context: SessionContext, node: NodeId): Promise<Attributes> {
  return onNode(context, node, (now) => context.drive.getAttributes(now))
}

/** What the kernel has of a file stays good while its size and its time do, and no other content took its place. */
function versionOf(
  { drive, ids }: SessionContext,
  node: NodeId,
  { size, mtimeMs }: Attributes,
): string {
  return `${size} ${mtimeMs} ${drive.now.contentVersion(ids.inDrive(node))}`
}

async function create(context: SessionContext, request: KernelRequest): Promise<KernelAnswer> {
  const { drive, settings, lookups, ids } = context
  const { node } = request
  const { flags, mode } = wire.CREATE_IN.decode(request.body)
  const [name] = readNames(request, wire.CREATE_IN.size, 1)
  // The kernel found nothing of this name, a moment ago.
  if ((flags & fsConstants.O_EXCL) !== 0 && lookUpNow(context, node, name) !== undefined) {
    throw new DriveError('exists', 'There is something of this name.')
  }
  const { attributes, handle } = await inDirectory(context, node, (now) =>
    drive.create(now, name, mode & 0o7777, {
      append: (flags & fsConstants.O_APPEND) !== 0,
      owner: ownerOfMade(request, settings),
    }),
  )
  return orRelease(context, handle, async () => {
    const isToCut = (flags & fsConstants.O_TRUNC) !== 0 && attributes.size > 0
    if (isToCut) await drive.truncateOpen(handle, 0)
    const now = isToCut ? await drive.getAttributes(attributes.node) : attributes
    const inKernel = ids.inKernel(now.node)
    const made = toldEntry(context, now, { parent: node, name }, inKernel)
    const answer = opened(context, inKernel, handle, {
      flags: drive.nodeOf(handle) === undefined ? DIRECT_IO : 0,
      entry: [encodeEntry(made, settings)],
      writer: request.pid,
    })
    return {
      ...answer,
      onDelivered: () => {
        answer.onDelivered()
        noteTold(context, made)
        lookups.isSameVersion(inKernel, versionOf(context, inKernel, now))
      },
    }
  })
}

/** Lets an open file go when a task with it fails. */
export async function orRelease<Result>(
  { drive }: SessionContext,
  handle: HandleId,
  task: () => Promise<Result>,
): Promise<Result> {
  try {
    return await task()
  } catch (error) {
    await drive.release(handle)
    throw error
  }
}

/** Tells of an open file. */
export function opened(
  { drive, log, handles, passthrough, descriptors }: SessionContext,
  node: NodeId,
  handle: HandleId,
  {
    flags,
    backingId = 0,
    entry = [],
    writer,
  }: {
    readonly flags: number
    readonly backingId?: number
    readonly entry?: readonly Buffer[]
    /** The process that opens it for writing. */
    readonly writer?: number
  },
) {
  // Before the program has it, and can hand it to others.
  const opening = writer === undefined ? undefined : descriptors.opened(writer)
  return {
    parts: [...entry, wire.OPEN_OUT.encode({ handle, flags, backingId })],
    onDelivered: () => {
      handles.add(node, handle, opening)
    },
    onLost: () => {
      passthrough.leave(node, handle)
      drive.release(handle).catch((error: unknown) => {
        log.warn(
          { error: String(error) },
          'A file that no program waits for any more cannot be closed.',
        )
      })
    },
  }
}

/** What is on the local disk is answered at once. */
function read(
  { drive, buffers }: SessionContext,
  { body }: KernelRequest,
): KernelAnswer | Promise<KernelAnswer> {
  const { handle, offset, size } = wire.READ_IN.decode(body)
  if (size > MAX_TRANSFER_BYTES) throw new MalformedMessage('A READ asks for too much.')
  const buffer = buffers.take(size)
  const giveBack = (): void => {
    buffers.give(buffer)
  }
  const tell = (count: number): KernelAnswer => ({
    parts: [buffer.subarray(0, count)],
    onDelivered: giveBack,
    onLost: giveBack,
  })
  try {
    const count = drive.read(handle as HandleId, buffer.subarray(0, size), offset)
    if (typeof count === 'number') return tell(count)
    // On an error the buffer is left to the garbage collector: a read that failed may still be under way.
    return count.then(tell)
  } catch (error) {
    giveBack()
    throw error
  }
}

function write(
  { drive, lookups }: SessionContext,
  { node, body }: KernelRequest,
): KernelAnswer | Promise<KernelAnswer> {
  const { handle, offset, size, flags } = wire.WRITE_IN.decode(body)
  const bytes = body.subarray(wire.WRITE_IN.size)
  if (bytes.length !== size) throw new MalformedMessage('A WRITE has not what it says.')
  // The kernel appends behind the size that it knows, which may be that of another version.
  const isAppended = (flags & fsConstants.O_APPEND) !== 0
  lookups.noteWritten(node)
  const count = drive.write(handle as HandleId, bytes, offset, { isAppended })
  const tell = (written: number): KernelAnswer => ({
    parts: [wire.WRITE_OUT.encode({ size: written })],
  })
  return typeof count === 'number' ? tell(count) : count.then(tell)
}
