import type { HandleId } from '../domain/ids.ts'
import type { Drive } from '../drive/drive.ts'
import type { OpenDescriptors } from './open-descriptors.ts'

interface FlushDeps {
  readonly drive: Drive
  readonly descriptors: OpenDescriptors
}

/** A descriptor that is closed; its path, for kernels that tell no inode, where the bridge knows it. */
interface ClosingFile {
  readonly handle: HandleId
  readonly path?: string
}

/** Leaves the flush to the last descriptor of an open file, where that can be told. */
export async function flushFile(
  { drive, descriptors }: FlushDeps,
  mountpoint: string,
  { handle, path = '' }: ClosingFile,
): Promise<void> {
  const inode = drive.uploadedOnClose(handle)
  if (inode !== undefined) {
    const file = { mountpoint, path: mountpoint + path, inode }
    // What was found may be of a file that was opened meanwhile, and that one promises nothing for this one.
    if ((await descriptors.isHeldForWriting(file)) && drive.uploadedOnClose(handle) === inode)
      return
  }
  await drive.flush(handle)
}
