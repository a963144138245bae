import { ownerOfMade } from '../owner.ts'
import type { Operations, SessionContext } from './context.ts'
import { asInKernel, encodeEntry, inDirectory } from './entries.ts'
import { opened } from './file-operations.ts'
import { CREATE_IN } from './structures.ts'

/** Files that are made without a name (O_TMPFILE); LINK gives them one. */
export function namelessOperations(context: SessionContext): Operations {
  const { drive, handles, lookups, settings } = context
  return {
    TMPFILE: async (request) => {
      const { node, pid } = request
      const { mode } = CREATE_IN.decode(request.body)
      const { attributes, handle } = await inDirectory(context, node, (now) =>
        drive.createNameless(now, mode & 0o7777, ownerOfMade(request, settings)),
      )
      const made = { ...asInKernel(context, attributes), links: 0 }
      const answer = opened(context, made.node, handle, {
        flags: 0,
        entry: [encodeEntry(made, settings)],
        writer: pid,
      })
      return {
        ...answer,
        onDelivered: () => {
          answer.onDelivered()
          lookups.add(made.node, { parent: node, name: '', kind: made.kind })
          handles.noteRemoved(made.node, node)
        },
      }
    },
  }
}
