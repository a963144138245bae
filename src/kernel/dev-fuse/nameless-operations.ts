import { ownerOfMade } from '../owner.ts'
import type { Operations, SessionContext } from './context.ts'
import { encodeEntry, inDirectory, noteTold, toldEntry } from './entries.ts'
import { opened } from './file-operations.ts'
import { CREATE_IN } from './structures.ts'

/** Files that are made without a name (O_TMPFILE); LINK gives them one. */
export function namelessOperations(context: SessionContext): Operations {
  const { drive, handles, ids, settings } = context
  return {
    TMPFILE: async (request) => {
      const { node, pid } = request
      const { mode } = CREATE_IN.decode(request.body)
      const { attributes, handle } = await inDirectory(context, node, (now) =>
        drive.createNameless(now, mode & 0o7777, ownerOfMade(request, settings)),
      )
      const inKernel = ids.inKernel(attributes.node)
      const place = { parent: node, name: '' }
      const made = toldEntry(context, { ...attributes, links: 0 }, place, inKernel)
      const answer = opened(context, inKernel, handle, {
        flags: 0,
        entry: [encodeEntry(made, settings)],
        writer: pid,
      })
      return {
        ...answer,
        onDelivered: () => {
          answer.onDelivered()
          noteTold(context, made)
          handles.noteRemoved(inKernel, node)
        },
      }
    },
  }
}
