import { DriveError, isDriveError } from '../../domain/errors.ts'
import type { NodeId } from '../../domain/ids.ts'
import type { Attributes } from '../../drive/tree/attributes.ts'
import type { BridgeSettings } from '../bridge.ts'
import { blocksToTell, linksToTell, modeToTell } from '../stats.ts'
import type { KernelAnswer } from './answer.ts'
import type { SessionContext } from './context.ts'
import { digestOf } from './digest.ts'
import type { NamePlace } from './node-ids.ts'
import { nanosecondsOf, secondsOf, toMicroseconds } from './wire-time.ts'
import { ATTR_OUT, ENTRY_OUT, type EntryValues } from './structures.ts'

/** Node ids are never given again. */
const GENERATION = 0
const PREFERRED_BYTES = 4096
/** The entry of a name that nothing has: no node. */
const NOTHING: EntryValues = {
  node: 0,
  generation: 0,
  entryValid: 0,
  attrValid: 0,
  entryValidNs: 0,
  attrValidNs: 0,
  ino: 0,
  size: 0,
  blocks: 0,
  atime: 0,
  mtime: 0,
  ctime: 0,
  atimeNs: 0,
  mtimeNs: 0,
  ctimeNs: 0,
  mode: 0,
  nlink: 0,
  uid: 0,
  gid: 0,
  rdev: 0,
  blksize: 0,
}

/**
 * What a stat tells, field by field: a directory of thousands is told in a moment, and an object that is spread into
 * another one costs more than all else here.
 */
function toWire(attributes: Attributes, settings: BridgeSettings, trustMs: number): EntryValues {
  const { node, size, uid, gid } = attributes
  const atime = toMicroseconds(attributes.atimeMs)
  const mtime = toMicroseconds(attributes.mtimeMs)
  const ctime = toMicroseconds(attributes.ctimeMs)
  const [valid, validNs] = validity(trustMs)
  return {
    node,
    generation: GENERATION,
    entryValid: valid,
    attrValid: valid,
    entryValidNs: validNs,
    attrValidNs: validNs,
    ino: node,
    size,
    blocks: blocksToTell(attributes),
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

/** Seconds, and nanoseconds beside. */
function validity(trustMs: number): readonly [number, number] {
  const seconds = Math.floor(trustMs / 1_000)
  return [seconds, Math.round((trustMs - seconds * 1_000) * 1e6)]
}

/** A name and what it leads to, as the kernel is told. */
export interface ToldEntry {
  /** By the id that the kernel has. */
  readonly attributes: Attributes
  readonly place: NamePlace
  /** How long the kernel may go by it, in ms. */
  readonly trustMs: number
  readonly digest: number
}

/** What the kernel is to be told of something in the drive, which it has by the id `node`. */
export function toldEntry(
  { trust }: Pick<SessionContext, 'trust'>,
  found: Attributes,
  place: NamePlace,
  node: NodeId,
): ToldEntry {
  const trustMs = trust.ofEntry(found, place)
  return { attributes: as(node, found), place, trustMs, digest: digestOf(found) }
}

/** Written at `start` of `bytes`. The kernel counts it: see `Lookups`. */
export function encodeEntryInto(
  { attributes, trustMs }: ToldEntry,
  settings: BridgeSettings,
  bytes: Buffer,
  start: number,
): void {
  ENTRY_OUT.encodeInto(toWire(attributes, settings, trustMs), bytes, start)
}

/** The same, alone. */
export function encodeEntry({ attributes, trustMs }: ToldEntry, settings: BridgeSettings): Buffer {
  return ENTRY_OUT.encode(toWire(attributes, settings, trustMs))
}

/**
 * Notes an entry that the kernel has now. What it had by another name, or as something of another kind, must not be
 * found by that any more: a record can turn out to be a folder, and the kernel makes a new inode of it then.
 */
export function noteTold(
  { lookups, notices, trust, clock }: SessionContext,
  { attributes: { node, kind }, place, trustMs, digest }: ToldEntry,
): void {
  const before = lookups.nameOf(node)
  const { parent, name } = before ?? place
  const isMoved = parent !== place.parent || name !== place.name
  const isLeft = isMoved && lookups.told(node)?.isNameTrusted === true
  const isOther = before !== undefined && before.kind !== kind
  const isNameTrusted = trust.isTold(trustMs)
  lookups.add(node, { ...place, kind }, { digest, atMs: clock.now(), isNameTrusted })
  notices.takeBack(place)
  if (isLeft || isOther) notices.forgetName({ parent, name })
}

/** Answers what was found as `name` in the directory `parent`. */
export function entryAnswer(
  context: SessionContext,
  found: Attributes,
  place: NamePlace,
): KernelAnswer {
  const told = toldEntry(context, found, place, idToTell(context, found, place))
  return {
    parts: [encodeEntry(told, context.settings)],
    onDelivered: () => {
      noteTold(context, told)
    },
  }
}

/** Answers that nothing has a name: the kernel goes by that, too, where it can be told when it ends. */
export function absenceAnswer(
  { trust }: SessionContext,
  place: NamePlace,
  error: DriveError,
): KernelAnswer {
  const trustMs = trust.ofAbsence(place)
  if (trustMs === 0) throw error
  const [entryValid, entryValidNs] = validity(trustMs)
  return {
    parts: [ENTRY_OUT.encode({ ...NOTHING, entryValid, entryValidNs })],
    standsFor: error,
  }
}

/** The id for the kernel; of a directory the one that it has for this name, when that means no other directory. */
export function idToTell(
  { drive, ids }: Pick<SessionContext, 'drive' | 'ids'>,
  { node, kind }: Attributes,
  place: NamePlace,
): NodeId {
  const known = kind === 'directory' ? ids.at(place) : undefined
  if (known !== undefined && !drive.knows(ids.inDrive(known))) ids.lead(known, node)
  return ids.inKernel(node)
}

function as(node: NodeId, attributes: Attributes): Attributes {
  return attributes.node === node ? attributes : { ...attributes, node }
}

/** Attributes of what the kernel knows as `node`. An open file without a name has no links. */
export function attributesAnswer(
  { settings, handles, trust, lookups, clock }: SessionContext,
  node: NodeId,
  attributes: Attributes,
): KernelAnswer {
  const told = toWire(as(node, attributes), settings, trust.ofAttributes(node))
  const digest = digestOf(attributes)
  return {
    parts: [ATTR_OUT.encode(handles.isRemoved(node) ? { ...told, nlink: 0 } : told)],
    onDelivered: () => {
      lookups.tell(node, { digest, atMs: clock.now() })
    },
  }
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
  const current = (): NodeId => {
    const open = handles.of(node)
    return (open && drive.nodeOf(open)) ?? ids.inDrive(node)
  }
  return foundAgain(context, { node, now: current(), current, isGone: () => true }, task)
}

/** The same for what asks for names in a directory: a name that is not there is `not-found` only where that is known. */
export async function inDirectory<Result>(
  context: SessionContext,
  node: NodeId,
  task: NodeTask<Result>,
): Promise<Result> {
  const { drive, ids } = context
  const now = ids.inDrive(node)
  const current = (): NodeId => ids.inDrive(node)
  return foundAgain(context, { node, now, current, isGone: () => !drive.knows(now) }, task)
}

interface Asked {
  readonly node: NodeId
  readonly now: NodeId
  /** What it is by then: it may have moved since it was asked for. */
  readonly current: () => NodeId
  /** Whether `not-found` tells of the node itself. */
  readonly isGone: () => boolean
}

/** Runs a task on a node; when the node is gone, once more on what an open file of it is now, or on the directory of its name. */
async function foundAgain<Result>(
  context: SessionContext,
  { node, now, current, isGone }: Asked,
  task: NodeTask<Result>,
): Promise<Result> {
  try {
    return await task(now)
  } catch (error) {
    if (!isDriveError(error, 'not-found') || !isGone()) throw error
    const moved = current()
    const found = moved === now ? await findAgain(context, node) : moved
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
