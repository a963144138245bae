import { DriveError } from '../../domain/errors.ts'
import type { HandleId, NodeId } from '../../domain/ids.ts'
import { DONE } from './answer.ts'
import type { Operations, SessionContext } from './context.ts'
import { COPY_FILE_RANGE_IN, FALLOCATE_IN, WRITE_OUT } from './structures.ts'

/** Flags of FALLOCATE. */
const KEEP_SIZE = 1 << 0
const PUNCH_HOLE = 1 << 1
const ZERO_RANGE = 1 << 4
/** What is copied at once: a program that is to stop does not wait for more. */
const MAX_COPY_BYTES = 16 << 20

export function rangeOperations({ drive, lookups }: SessionContext): Operations {
  return {
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
    COPY_FILE_RANGE: async ({ body }) => {
      const asked = COPY_FILE_RANGE_IN.decode(body)
      const from = { handle: asked.handle as HandleId, offset: asked.offset }
      lookups.noteWritten(asked.toNode as NodeId)
      const to = { handle: asked.toHandle as HandleId, offset: asked.toOffset }
      const size = await drive.copyRange(from, to, Math.min(asked.length, MAX_COPY_BYTES))
      return { parts: [WRITE_OUT.encode({ size })] }
    },
  }
}
