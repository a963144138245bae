import { constants as fsConstants } from 'node:fs'
import { DriveError } from '../domain/errors.ts'
import type { NodeId } from '../domain/ids.ts'
import type { Drive } from '../drive/drive.ts'

/** mknod: makes an empty file; anything else is refused. */
export async function makeFile(
  drive: Drive,
  parent: NodeId,
  name: string,
  mode: number,
): Promise<void> {
  const type = mode & fsConstants.S_IFMT
  if (type !== 0 && type !== fsConstants.S_IFREG) {
    throw new DriveError('not-permitted', 'The drive holds files only.')
  }
  const { handle } = await drive.create(parent, name, mode & 0o7777)
  try {
    await drive.flush(handle)
  } finally {
    await drive.release(handle)
  }
}
