import { DriveError, isDriveError } from '../../domain/errors.ts'
import type { NodeId } from '../../domain/ids.ts'
import type { Attributes } from '../../drive/tree/attributes.ts'
import type { BridgeSettings } from '../bridge.ts'
import { linksToTell, modeToTell } from '../stats.ts'
import type { KernelAnswer } from './answer.ts'
import type { SessionContext } from './context.ts'
import type { NamePlace } from './node-ids.ts'
import { nanosecondsOf, secondsOf, toMicroseconds } from './wire-time.ts'
import { ATTR_OUT, ENTRY_OUT, type EntryValues } from './structures.ts'

/** How long the kernel goes by names and attributes that it was told, in seconds: as long as libfuse has it. */
const TRUSTED_S = 1
/** Node ids are never given again. */
const GENERATION = 0
/** What stat counts blocks in. */
const BLOCK_BYTES = 512
const PREFERRED_BYTES = 4096

/**
 * What a stat tells, field by field: a directory of thousands is told in a moment, and an object that is spread into
 * another one costs more than all else here.
 */
function toWire(attributes: Attributes, settings: BridgeSettings): EntryValues {
  const { node, size, uid, gid } = attributes
  const atime = toMicroseconds(attributes.atimeMs)
  const mtime = toMicroseconds(attributes.mtimeMs)
  const ctime = toMicroseconds(attributes.ctimeMs)
  return {
    node,
    generation: GENERATION,
    entryValid: TRUSTED_S,
    attrValid: TRUSTED_S,
    entryValidNs: 0,
    attrValidNs: 0,
    ino: node,
    size,
    blocks: Math.ceil(size / BLOCK_BYTES),
    atime: secondsOf(atime),
    mtime: secondsOf(mtime),
    ctime: secondsOf(ctime),
    atimeNs: nanosecondsOf(atime),
    mtimeNs: nanosecondsOf(mtime),
    ctimeNs: nanosecondsOf(ctime),
    mode: modeToTell(attributes, settings),
    nlink: linksToTell(attributes),
    uid: uid ?? settings.uid,
    gid: gid ?? settings.gid,
    rdev: attributes.device ?? 0,
    blksize: PREFERRED_BYTES,
  }
}

/** A name and what it leads to, written at `start` of `bytes`. The kernel counts it: see `Lookups`. */
export function encodeEntryInto(
  attributes: Attributes,
  settings: BridgeSettings,
  bytes: Buffer,
  start: number,
): void {
  ENTRY_OUT.encodeInto(toWire(attributes, settings), bytes, start)
}

/** The same, alone. */
export function encodeEntry(attributes: Attributes, settings: BridgeSettings): Buffer {
  return ENTRY_OUT.encode(toWire(attributes, settings))
}

/** Answers what was found as `name` in the directory `parent`. */
export function entryAnswer(
  context: SessionContext,
  attributes: Attributes,
  place: NamePlace,
): KernelAnswer {
  const { settings, lookups, notices } = context
  const { kind } = attributes
  const shown =
    kind === 'directory'
      ? as(idToTell(context, attributes.node, place), attributes)
      : asInKernel(context, attributes)
  const { node } = shown
  const other = lookups.otherwise(node, kind)
  return {
    parts: [encodeEntry(shown, settings)],
    onDelivered: () => {
      lookups.add(node, { ...place, kind })
      if (other !== undefined) notices.forgetName(other)
    },
  }
}

/** The id of a directory for the kernel: the one that it has for this name, when that means no other directory. */
function idToTell({ drive, ids }: SessionContext, node: NodeId, place: NamePlace): NodeId {
  const known = ids.at(place)
  if (known !== undefined && !drive.knows(ids.inDrive(known))) ids.lead(known, node)
  return ids.inKernel(node)
}

/** The same, with the id that the kernel has for it. */
export function asInKernel({ ids }: SessionContext, attributes: Attributes): Attributes {
  return as(ids.inKernel(attributes.node), attributes)
}

function as(node: NodeId, attributes: Attributes): Attributes {
  return attributes.node === node ? attributes : { ...attributes, node }
}

/** Attributes of what the kernel knows as `node`. An open file without a name has no links. */
export function attributesAnswer(
  { settings, handles }: SessionContext,
  node: NodeId,
  attributes: Attributes,
): KernelAnswer {
  const told = toWire(as(node, attributes), settings)
  return { parts: [ATTR_OUT.encode(handles.isRemoved(node) ? { ...told, nlink: 0 } : told)] }
}

/** Attributes behind a name when they are at hand; on an error too undefined: `lookUp` tells it. */
export function lookUpNow(
  { drive, ids }: Pick<SessionContext, 'drive' | 'ids'>,
  parent: NodeId,
  name: string,
): Attributes | undefined {
  try {
    const found = drive.lookupNow(ids.inDrive(parent), name)
    // A directory may have changed since its parent was asked for it.
    return found?.kind === 'directory' ? undefined : found
  } catch {
    return undefined
  }
}

export async function lookUp(
  context: SessionContext,
  parent: NodeId,
  name: string,
): Promise<Attributes> {
  const { drive } = context
  return inDirectory(context, parent, async (now) => {
    const found = await drive.lookup(now, name)
    return found.kind === 'directory' ? drive.getAttributes(found.node) : found
  })
}

type NodeTask<Result> = (now: NodeId) => Result | Promise<Result>

/**
 * Runs what asks for a node by its id, with the id that the drive has for it. The kernel found it a moment ago: when it
 * is gone the kernel is to look for its name again, which the answer `stale` has it do. With `not-found`, O_CREAT would
 * fail where it is to make the file. An open file that has moved into another folder is asked for by what it is there.
 */
export async function onNode<Result>(
  context: SessionContext,
  node: NodeId,
  task: NodeTask<Result>,
): Promise<Result> {
  const { drive, handles, ids } = context
  const open = handles.of(node)
  const now = (open && drive.nodeOf(open)) ?? ids.inDrive(node)
  return foundAgain(context, { node, now, isGone: () => true }, task)
}

/** The same for what asks for names in a directory: a name that is not there is `not-found` only where that is known. */
export async function inDirectory<Result>(
  context: SessionContext,
  node: NodeId,
  task: NodeTask<Result>,
): Promise<Result> {
  const { drive, ids } = context
  const now = ids.inDrive(node)
  return foundAgain(context, { node, now, isGone: () => !drive.knows(now) }, task)
}

interface Asked {
  readonly node: NodeId
  readonly now: NodeId
  /** Whether `not-found` tells of the node itself. */
  readonly isGone: () => boolean
}

/** Runs a task on a node; when the node is gone, once more on the directory that has its name now. */
async function foundAgain<Result>(
  context: SessionContext,
  { node, now, isGone }: Asked,
  task: NodeTask<Result>,
): Promise<Result> {
  try {
    return await task(now)
  } catch (error) {
    if (!isDriveError(error, 'not-found') || !isGone()) throw error
    const found = await findAgain(context, node)
    if (found !== undefined && found !== now) return task(found)
    throw new DriveError('stale', error.message, { cause: error })
  }
}

/** More names than a path can have. */
const DEEPEST = 4096

/** What the drive has for a directory of the kernel now, by its name; undefined for one that is not there any more. */
async function findAgain(
  context: SessionContext,
  node: NodeId,
  depth = 0,
): Promise<NodeId | undefined> {
  const { drive, ids } = context
  const place = ids.placeOf(node)
  if (place === undefined || depth > DEEPEST) return undefined
  const { parent, name } = place
  const known = ids.inDrive(parent)
  const above = drive.knows(known) ? known : await findAgain(context, parent, depth + 1)
  const found = above === undefined ? undefined : await drive.lookup(above, name).catch(ifMissing)
  if (found?.kind !== 'directory') return undefined
  ids.lead(node, found.node)
  return found.node
}

function ifMissing(error: unknown): undefined {
  if (!isDriveError(error, 'not-found')) throw error
}
