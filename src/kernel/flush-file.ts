import type { HandleId } from '../domain/ids.ts'
import type { Drive } from '../drive/drive.ts'
import type { OpenDescriptors, Opening } from './open-descriptors.ts'

interface FlushDeps {
  readonly drive: Drive
  readonly descriptors: OpenDescriptors
}

/**
 * A descriptor that is closed; its path, for kernels that tell no inode, where the bridge knows it, and which processes
 * opened and close it, where it knows that.
 */
interface ClosingFile {
  readonly handle: HandleId
  readonly path?: string
  readonly shared?: { readonly opening: Opening; readonly closer: number }
}

/** Leaves the flush to the last descriptor of an open file, where that can be told. */
export async function flushFile(
  { drive, descriptors }: FlushDeps,
  mountpoint: string,
  { handle, path = '', shared }: ClosingFile,
): Promise<void> {
  const inode = drive.uploadedOnClose(handle)
  if (inode !== undefined) {
    const file = { mountpoint, path: mountpoint + path, inode }
    // What was found may be of a file that was opened meanwhile, and that one promises nothing for this one.
    const isHeld = await descriptors.isHeldForWriting(file, shared)
    if (isHeld && drive.uploadedOnClose(handle) === inode) return
  }
  await drive.flush(handle)
}
