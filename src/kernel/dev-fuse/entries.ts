import { DriveError, isDriveError } from '../../domain/errors.ts'
import type { NodeId } from '../../domain/ids.ts'
import type { Drive } from '../../drive/drive.ts'
import type { Attributes } from '../../drive/tree/attributes.ts'
import type { BridgeSettings } from '../bridge.ts'
import { toStat } from '../stats.ts'
import type { KernelAnswer } from './answer.ts'
import type { SessionContext } from './context.ts'
import { ATTR_OUT, ENTRY_OUT, type EntryValues } from './structures.ts'

/** How long the kernel goes by names and attributes that it was told, in seconds: as long as libfuse has it. */
const TRUSTED_S = 1
/** Node ids are never given again. */
const GENERATION = 0
const NS_PER_MS = 1_000_000

/**
 * What a stat tells, field by field: a directory of thousands is told in a moment, and an object that is spread into
 * another one costs more than all else here.
 */
function toWire(attributes: Attributes, settings: BridgeSettings): EntryValues {
  const { mode, uid, gid, size, nlink, ino, blksize, blocks, atime, mtime, ctime } = toStat(
    attributes,
    settings,
  )
  return {
    node: attributes.node,
    generation: GENERATION,
    entryValid: TRUSTED_S,
    attrValid: TRUSTED_S,
    entryValidNs: 0,
    attrValidNs: 0,
    ino,
    size,
    blocks,
    atime: Math.floor(atime / 1000),
    mtime: Math.floor(mtime / 1000),
    ctime: Math.floor(ctime / 1000),
    atimeNs: (atime % 1000) * NS_PER_MS,
    mtimeNs: (mtime % 1000) * NS_PER_MS,
    ctimeNs: (ctime % 1000) * NS_PER_MS,
    mode,
    nlink,
    uid,
    gid,
    blksize,
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
  { settings, lookups, notices }: SessionContext,
  attributes: Attributes,
  { parent, name }: { readonly parent: NodeId; readonly name: string },
): KernelAnswer {
  const { node, kind } = attributes
  const other = lookups.otherwise(node, kind)
  return {
    parts: [encodeEntry(attributes, settings)],
    onDelivered: () => {
      lookups.add(node, { parent, name, kind })
      if (other !== undefined) notices.forgetName(other)
    },
  }
}

export function attributesAnswer(attributes: Attributes, settings: BridgeSettings): KernelAnswer {
  return { parts: [ATTR_OUT.encode(toWire(attributes, settings))] }
}

/** Attributes behind a name when they are at hand; on an error too undefined: `lookUp` tells it. */
export function lookUpNow(drive: Drive, parent: NodeId, name: string): Attributes | undefined {
  try {
    const found = drive.lookupNow(parent, name)
    // A directory may have changed since its parent was asked for it.
    return found?.kind === 'directory' ? undefined : found
  } catch {
    return undefined
  }
}

export async function lookUp(
  context: Pick<SessionContext, 'drive'>,
  parent: NodeId,
  name: string,
): Promise<Attributes> {
  const { drive } = context
  return inDirectory(context, parent, async () => {
    const found = await drive.lookup(parent, name)
    return found.kind === 'directory' ? drive.getAttributes(found.node) : found
  })
}

/**
 * Runs what asks for a node by its id. The kernel found it a moment ago: when it is gone the kernel is to look for
 * its name again, which the answer `stale` has it do. With `not-found`, O_CREAT would fail where it is to make the file.
 * An open file that has moved into another folder is asked for by what it is there.
 */
export async function onNode<Result>(
  { drive, handles }: Pick<SessionContext, 'drive' | 'handles'>,
  node: NodeId,
  task: (node: NodeId) => Result | Promise<Result>,
): Promise<Result> {
  const open = handles.of(node)
  try {
    return await task((open && drive.nodeOf(open)) ?? node)
  } catch (error) {
    if (!isDriveError(error, 'not-found')) throw error
    throw new DriveError('stale', error.message, { cause: error })
  }
}

/** The same for what asks for names in a directory: a name that is not there is `not-found` only where that is known. */
export async function inDirectory<Result>(
  { drive }: Pick<SessionContext, 'drive'>,
  node: NodeId,
  task: () => Promise<Result>,
): Promise<Result> {
  try {
    return await task()
  } catch (error) {
    if (!isDriveError(error, 'not-found') || drive.knows(node)) throw error
    throw new DriveError('stale', error.message, { cause: error })
  }
}
