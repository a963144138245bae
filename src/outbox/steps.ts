/**
 * The moments between two steps of carrying out a change: a kill at any of them must lose nothing.
 * - `migrate.moved`: an intent of an older layout is in its new place, others may not be
 * - `add.*`, `update.*`, `remove.*`: what the outbox writes; `written` is on disk, but not acted on yet
 * - `stage.*`: a renamed bag's content was fetched, put in its place
 * - `folder.*`: what is being written has its closed version in a file of its own. What is not
 *   closed is written down once more. Changes are packed into a zip; its bag is stored and the tree
 *   was led to it
 * - `upload.*`, `delete.*`: before a request, and when its answer is known to memory only
 * - `trash.*`: content of a bag that is to be deleted has its place in the trash, and is written down there
 * - `proof.begin`: the id that an upload was answered with is written down, and not proven yet
 * - `cache.*`: confirmed content is given to the cache
 * - `move.*`: what is moved between folders, or a folder and the root, is at its new place, and gone from the old one
 * - `handover.inherited`: the successor has what a put still had to delete, and the put is still there
 */
export type Step =
  | 'migrate.moved'
  | 'add.begin'
  | 'add.written'
  | 'update.written'
  | 'remove.begin'
  | 'remove.unlinked'
  | 'stage.fetched'
  | 'stage.placed'
  | 'folder.split'
  | 'folder.repeated'
  | 'folder.packed'
  | 'folder.led'
  | 'upload.begin'
  | 'upload.answered'
  | 'proof.begin'
  | 'cache.begin'
  | 'cache.taken'
  | 'trash.placed'
  | 'trash.kept'
  | 'delete.begin'
  | 'delete.answered'
  | 'move.placed'
  | 'move.removed'
  | 'handover.inherited'

/** Told of each step that is passed; crash tests end the process there. */
export type StepListener = (step: Step) => void
