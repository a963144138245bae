import { DriveError, isDriveError } from '../../domain/errors.ts'
import type { NodeId } from '../../domain/ids.ts'
import { makeFile } from '../make-file.ts'
import { ownerOfMade } from '../owner.ts'
import { DONE, type KernelAnswer } from './answer.ts'
import type { Operations, SessionContext } from './context.ts'
import { entryAnswer, inDirectory, lookUp, lookUpNow } from './entries.ts'
import type { NamePlace } from './node-ids.ts'
import { readNames, readTexts, type KernelRequest } from './request.ts'
import { LINK_IN, MKDIR_IN, MKNOD_IN, RENAME2_IN, RENAME_IN } from './structures.ts'

/** Flags of RENAME2. */
const RENAME_NOREPLACE = 1
const RENAME_EXCHANGE = 2

export function nameOperations(context: SessionContext): Operations {
  const { drive, ids } = context
  return {
    ...makings(context),
    UNLINK: (request) => unlink(context, request.node, readNames(request, 0, 1)[0]),
    RMDIR: async (request) => {
      const { node } = request
      const [name] = readNames(request, 0, 1)
      refuseHolding(context, await openBehind(context, node, name))
      await inDirectory(context, node, (now) => drive.removeDirectory(now, name))
      ids.remove({ parent: node, name })
      return changed(context, [{ parent: node, name }], () => {
        context.lookups.remove({ parent: node, name })
      })
    },
    RENAME: (request) => {
      const { newParent } = RENAME_IN.decode(request.body)
      const names = readNames(request, RENAME_IN.size, 2)
      return rename(context, request.node, newParent as NodeId, names)
    },
    RENAME2: (request) => renameWithFlags(context, request),
    LINK: (request) => link(context, request),
  }
}

function makings(context: SessionContext): Operations {
  const { drive, settings } = context
  const found = async (parent: NodeId, name: string): Promise<KernelAnswer> =>
    entryAnswer(context, await lookUp(context, parent, name), { parent, name })
  return {
    MKDIR: async (request) => {
      const { node } = request
      const { mode } = MKDIR_IN.decode(request.body)
      const [name] = readNames(request, MKDIR_IN.size, 1)
      await inDirectory(context, node, (now) =>
        drive.makeDirectory(now, name, mode & 0o7777, ownerOfMade(request, settings)),
      )
      return found(node, name)
    },
    MKNOD: async (request) => {
      const { node } = request
      const { mode, device } = MKNOD_IN.decode(request.body)
      const [name] = readNames(request, MKNOD_IN.size, 1)
      await inDirectory(context, node, (now) =>
        makeFile(drive, now, name, { mode, device, ...ownerOfMade(request, settings) }),
      )
      return found(node, name)
    },
    SYMLINK: async (request) => {
      const { node } = request
      const [name] = readNames(request, 0, 1)
      const [, target] = readTexts(request.body, 0, 2)
      await inDirectory(context, node, (now) =>
        drive.makeSymlink(now, name, target, ownerOfMade(request, settings)),
      )
      return found(node, name)
    },
  }
}

async function unlink(
  context: SessionContext,
  parent: NodeId,
  name: string,
): Promise<KernelAnswer> {
  const { drive, handles, lookups } = context
  const removed = await openBehind(context, parent, name)
  await inDirectory(context, parent, (now) => drive.unlink(now, name))
  if (removed !== undefined) handles.noteRemoved(removed, parent)
  return changed(context, [{ parent, name }], () => {
    lookups.remove({ parent, name })
  })
}

/**
 * The answer to a change of names. A kernel that hears it has made the change itself, which `noteMade` notes. One that has
 * given the request up goes by the names as they were: it is told to look at them again.
 */
function changed(
  { trust }: SessionContext,
  places: readonly NamePlace[],
  noteMade: () => void,
): KernelAnswer {
  const onLost = (): void => {
    trust.noteUnheard(places)
  }
  return { ...DONE, onDelivered: noteMade, onLost }
}

/** A second name is refused; a first one is what a file that was made without one gets. */
async function link(context: SessionContext, request: KernelRequest): Promise<KernelAnswer> {
  const { drive, handles } = context
  const linked = LINK_IN.decode(request.body).node as NodeId
  const [name] = readNames(request, LINK_IN.size, 1)
  const handle = handles.isRemoved(linked) ? handles.of(linked) : undefined
  if (handle === undefined) {
    throw new DriveError('not-permitted', 'The service has no hard links.')
  }
  const parent = request.node
  const named = await inDirectory(context, parent, (now) => drive.link(handle, now, name))
  handles.noteNamed(linked)
  return entryAnswer(context, named, { parent, name })
}

async function rename(
  context: SessionContext,
  parent: NodeId,
  newParent: NodeId,
  [name, newName]: readonly [string, string],
): Promise<KernelAnswer> {
  const { drive, handles, ids, lookups, trust } = context
  const replaced = await openBehind(context, newParent, newName)
  refuseHolding(context, replaced)
  await inDirectory(context, newParent, (to) =>
    inDirectory(context, parent, (from) => drive.rename(from, name, to, newName)),
  )
  const [from, to] = [
    { parent, name },
    { parent: newParent, name: newName },
  ]
  ids.move(from, to)
  leadMoved(context)
  if (replaced !== undefined) handles.noteRemoved(replaced, newParent)
  return changed(context, [from, to], () => {
    lookups.move(from, to)
    trust.noteMoved(to)
  })
}

/** Open files that are others in the drive since they moved stay what they are for the kernel. */
function leadMoved({ drive, handles, ids }: SessionContext): void {
  for (const [node, handle] of handles.all()) {
    const now = drive.nodeOf(handle)
    if (now !== undefined && now !== ids.inDrive(node)) ids.lead(node, now)
  }
}

/** The node behind a name, where it matters: while files are open. */
async function openBehind(
  context: SessionContext,
  parent: NodeId,
  name: string,
): Promise<NodeId | undefined> {
  if (context.handles.size === 0) return undefined
  const now = lookUpNow(context, parent, name)
  if (now !== undefined) return context.ids.inKernel(now.node)
  try {
    return context.ids.inKernel((await lookUp(context, parent, name)).node)
  } catch (error) {
    // What the change itself meets is what the program is told.
    if (isDriveError(error)) return undefined
    throw error
  }
}

/** A file that is open can be written to as long as the folder that it was in is there. */
function refuseHolding({ handles }: SessionContext, directory: NodeId | undefined): void {
  if (directory === undefined || !handles.holdRemovedOf(directory)) return
  throw new DriveError('not-empty', 'A program has a file open that was removed from this folder.')
}

/** The kernel itself refuses a name that it knows to be taken; one that it does not know is looked for. */
async function renameWithFlags(
  context: SessionContext,
  request: KernelRequest,
): Promise<KernelAnswer> {
  const { newParent, flags } = RENAME2_IN.decode(request.body)
  const names = readNames(request, RENAME2_IN.size, 2)
  if (flags === RENAME_EXCHANGE) {
    return exchange(context, request.node, newParent as NodeId, names)
  }
  if ((flags & ~RENAME_NOREPLACE) !== 0) {
    throw new DriveError('invalid', 'This kind of rename is not known.')
  }
  if (flags !== 0) await refuseTaken(context, newParent as NodeId, names[1])
  return rename(context, request.node, newParent as NodeId, names)
}

async function exchange(
  context: SessionContext,
  parent: NodeId,
  newParent: NodeId,
  [name, newName]: readonly [string, string],
): Promise<KernelAnswer> {
  const { drive, ids, lookups } = context
  await inDirectory(context, newParent, (to) =>
    inDirectory(context, parent, (from) => drive.exchange(from, name, to, newName)),
  )
  ids.exchange({ parent, name }, { parent: newParent, name: newName })
  const places = [
    { parent, name },
    { parent: newParent, name: newName },
  ] as const
  leadMoved(context)
  return changed(context, places, () => {
    lookups.exchange(...places)
    for (const place of places) context.trust.noteMoved(place)
  })
}

async function refuseTaken(context: SessionContext, parent: NodeId, name: string): Promise<void> {
  const isFree = await lookUp(context, parent, name).then(
    () => false,
    (error: unknown) => {
      if (isDriveError(error, 'not-found')) return true
      throw error
    },
  )
  if (!isFree) throw new DriveError('exists', 'There is something of this name.')
}
