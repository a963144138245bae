import { constants } from 'node:os'
import { DriveError, isDriveError } from '../../domain/errors.ts'
import type { HandleId, NodeId } from '../../domain/ids.ts'
import type { AttributeChanges } from '../../domain/attributes.ts'
import { ownerChanges } from '../owner.ts'
import { toStatFs } from '../stats.ts'
import type { KernelAnswer } from './answer.ts'
import type { Operations, SessionContext } from './context.ts'
import {
  absenceAnswer,
  attributesAnswer,
  entryAnswer,
  idToTell,
  lookUp,
  lookUpNow,
  onNode,
} from './entries.ts'
import { readNames, type KernelRequest } from './request.ts'
import { GETATTR_IN, SETATTR_IN, STATFS_OUT } from './structures.ts'
import { toMilliseconds } from './wire-time.ts'

/** Bits of a SETATTR: which of its fields count. */
const MODE = 1 << 0
const UID = 1 << 1
const GID = 1 << 2
const SIZE = 1 << 3
const ATIME = 1 << 4
const MTIME = 1 << 5
const HANDLE = 1 << 6
const ATIME_NOW = 1 << 7
const MTIME_NOW = 1 << 8
const LOCK_OWNER = 1 << 9

type SetAttr = ReturnType<typeof SETATTR_IN.decode>

export function attributeOperations(context: SessionContext): Operations {
  const { drive } = context
  return {
    LOOKUP: (request) => {
      const { node } = request
      const [name] = readNames(request, 0, 1)
      const now = lookUpNow(context, node, name)
      const place = { parent: node, name }
      if (now !== undefined) return entryAnswer(context, now, place)
      return lookUp(context, node, name).then(
        (found) => entryAnswer(context, found, place),
        (error: unknown) => {
          if (isDriveError(error, 'not-found')) return absenceAnswer(context, place, error)
          throw error
        },
      )
    },
    GETATTR: ({ node, body }) => {
      GETATTR_IN.decode(body)
      return tellAttributes(context, node)
    },
    SETATTR: (request) => setAttributes(context, request),
    READLINK: async ({ node }) => {
      const target = await onNode(context, node, (now) => drive.readSymlink(now))
      return { parts: [Buffer.from(target)] }
    },
    STATFS: async () => {
      const { namemax, ...stat } = toStatFs(await drive.space.report())
      return { parts: [STATFS_OUT.encode({ ...stat, namelen: namemax })] }
    },
  }
}

async function tellAttributes(context: SessionContext, node: NodeId): Promise<KernelAnswer> {
  if (await hasWrongName(context, node)) return { errno: constants.errno.ESTALE }
  const attributes = await onNode(context, node, (now) => context.drive.getAttributes(now))
  const known = context.lookups.nameOf(node)
  if (known !== undefined && known.kind !== attributes.kind) {
    throw new DriveError('stale', 'It turned out to be something else.')
  }
  return attributesAnswer(context, node, attributes)
}

/** True when the kernel goes by a name that leads to something else: ESTALE has it look for the name, see `KernelTrust`. */
async function hasWrongName(context: SessionContext, node: NodeId): Promise<boolean> {
  const { lookups, handles } = context
  const known = lookups.nameOf(node)
  if (known === undefined || lookups.told(node)?.isNameWrong !== true) return false
  if (handles.of(node) !== undefined) return false
  const place = { parent: known.parent, name: known.name }
  const found = await lookUp(context, place.parent, place.name).catch((error: unknown) => {
    if (!isDriveError(error)) throw error
  })
  return found === undefined || idToTell(context, found, place) !== node
}

/** The length first: what is refused for it changes nothing else. */
async function setAttributes(
  context: SessionContext,
  { node, body }: KernelRequest,
): Promise<KernelAnswer> {
  const { drive, settings } = context
  const asked = SETATTR_IN.decode(body)
  const { valid, handle, size, uid, gid } = asked
  const has = (bit: number): boolean => (valid & bit) !== 0
  const owner = { ...(has(UID) ? { uid } : {}), ...(has(GID) ? { gid } : {}) }
  if (changesLength(valid)) {
    if (has(HANDLE)) await drive.truncateOpen(handle as HandleId, size)
    else await onNode(context, node, (now) => drive.truncate(now, size))
  }
  const changes = changesOf(asked, context.clock.now())
  if ((valid & ~(SIZE | HANDLE | LOCK_OWNER)) !== 0) {
    await onNode(context, node, async (now) => {
      const before = await drive.getAttributes(now)
      await drive.setAttributes(now, { ...changes, ...ownerChanges(owner, before, settings) })
    })
  }
  // Another name of the same content may have changed with it.
  await context.trust.heard()
  return tellAttributes(context, node)
}

/** True for the `valid` of a SETATTR that sets the length of a file. */
export function changesLength(valid: number): boolean {
  return (valid & SIZE) !== 0
}

function changesOf(asked: SetAttr, nowMs: number): AttributeChanges {
  const { valid, mode } = asked
  const has = (bit: number): boolean => (valid & bit) !== 0
  const time = (now: number, seconds: number, ns: number): number =>
    has(now) ? nowMs : toMilliseconds(seconds, ns)
  return {
    ...(has(MODE) ? { mode: mode & 0o7777 } : {}),
    ...(has(ATIME) ? { atimeMs: time(ATIME_NOW, asked.atime, asked.atimeNs) } : {}),
    ...(has(MTIME) ? { mtimeMs: time(MTIME_NOW, asked.mtime, asked.mtimeNs) } : {}),
  }
}
