import { DriveError } from '../../domain/errors.ts'
import type { NodeId } from '../../domain/ids.ts'
import { processOf } from '../asking-process.ts'
import type { SessionContext } from './context.ts'

/** tumblerd of Xfce, and programs named `…-thumbnailer`, of whose names the kernel keeps 15 bytes. */
const THUMBNAILER = /^tumblerd$|thumb|-thum?$/

/**
 * Rejects `not-permitted` where a program that only makes thumbnails would fetch a large file: a look into a folder
 * must not download it. It is refused at `open`, for a read that fails kills a program that maps the file.
 */
export async function refuseLargeThumbnail(
  { drive, settings }: Pick<SessionContext, 'drive' | 'settings'>,
  node: NodeId,
  thread: number,
): Promise<void> {
  const { size } = await drive.getAttributes(node)
  if (size <= settings.thumbnailBytes || !isThumbnailer(thread)) return
  if (await drive.isHere(node)) return
  throw new DriveError('not-permitted', 'A thumbnail is no reason to fetch a file of this size.')
}

function isThumbnailer(thread: number): boolean {
  return THUMBNAILER.test(processOf(thread).program ?? '')
}
