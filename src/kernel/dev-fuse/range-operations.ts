import { DriveError } from '../../domain/errors.ts'
import type { HandleId, NodeId } from '../../domain/ids.ts'
import type { OnDisk } from '../../drive/tree/open-file.ts'
import { DONE } from './answer.ts'
import type { Operations, SessionContext } from './context.ts'
import type { SeekExtent } from './libc.ts'
import {
  COPY_FILE_RANGE_IN,
  COPY_FILE_RANGE_OUT,
  FALLOCATE_IN,
  LSEEK_IN,
  LSEEK_OUT,
  WRITE_OUT,
} from './structures.ts'

/** Flags of FALLOCATE. */
const KEEP_SIZE = 1 << 0
const PUNCH_HOLE = 1 << 1
const ZERO_RANGE = 1 << 4
/** Of LSEEK; the kernel sees to all others itself. */
const SEEK_DATA = 3
const SEEK_HOLE = 4

export function rangeOperations({
  drive,
  lookups,
  handles,
  notices,
  seek,
  share,
}: SessionContext): Operations {
  const copyRange = (body: Buffer): Promise<number> => {
    const asked = COPY_FILE_RANGE_IN.decode(body)
    const from = { handle: asked.handle as HandleId, offset: asked.offset }
    lookups.noteWritten(asked.toNode as NodeId)
    const to = { handle: asked.toHandle as HandleId, offset: asked.toOffset }
    return drive.copyRange(from, to, asked.length, share)
  }
  return {
    LSEEK: async ({ node, body }) => {
      const asked = LSEEK_IN.decode(body)
      // What a program wrote by a map may be in the kernel's pages only, and a hole here.
      if (handles.isOpenForWriting(node)) await notices.takePages(node, asked.offset)
      const offset = findExtent(seek, await drive.onDisk(asked.handle as HandleId), asked)
      return { parts: [LSEEK_OUT.encode({ offset })] }
    },
    FALLOCATE: async ({ node, body }) => {
      const { handle, offset, length, mode } = FALLOCATE_IN.decode(body)
      const isKnown =
        mode === 0 || mode === (PUNCH_HOLE | KEEP_SIZE) || (mode | 1) === (ZERO_RANGE | 1)
      if (!isKnown) throw new DriveError('unsupported', 'Room behind the end is not kept.')
      const how = { isZeroed: mode !== 0, isLengthened: (mode & KEEP_SIZE) === 0 }
      lookups.noteWritten(node)
      await drive.allocate(handle as HandleId, { offset, length }, how)
      return DONE
    },
    // The older one has 32 bits for how many were copied: the kernel asks for fewer then.
    COPY_FILE_RANGE: async ({ body }) => ({
      parts: [WRITE_OUT.encode({ size: await copyRange(body) })],
    }),
    COPY_FILE_RANGE_64: async ({ body }) => ({
      parts: [COPY_FILE_RANGE_OUT.encode({ copied: await copyRange(body) })],
    }),
  }
}

/** Where data or a hole begins, from an offset on: all is data of what is in no file of the local disk. */
function findExtent(
  seek: SeekExtent,
  { length, fd }: OnDisk,
  { offset, whence }: { readonly offset: number; readonly whence: number },
): number {
  if (whence !== SEEK_DATA && whence !== SEEK_HOLE) {
    throw new DriveError('invalid', 'Data and holes are all that is looked for.')
  }
  if (offset >= length) throw beyondEnd()
  const at = fd === undefined ? undefined : seek(fd, offset, whence)
  if (at === 'none') throw beyondEnd()
  return at === undefined ? (whence === SEEK_DATA ? offset : length) : Math.min(at, length)
}

function beyondEnd(): DriveError {
  return new DriveError('beyond-end', 'There is nothing of this kind from here to the end.')
}
