import { constants as fsConstants } from 'node:fs'
import type { SpecialKind } from '../domain/attributes.ts'
import { DriveError } from '../domain/errors.ts'
import type { NodeId } from '../domain/ids.ts'
import { TYPE_BITS } from './stats.ts'
import type { MadeAttributes } from '../drive/tree/home.ts'
import type { Drive } from '../drive/drive.ts'

const SPECIAL_KINDS: readonly SpecialKind[] = ['fifo', 'socket', 'character-device', 'block-device']

/** mknod: makes an empty file or a node; `device` as the kernel has it. */
export async function makeFile(
  drive: Drive,
  parent: NodeId,
  name: string,
  { mode, uid, gid, device }: MadeAttributes & { readonly device: number },
): Promise<void> {
  const type = mode & fsConstants.S_IFMT
  if (type !== 0 && type !== fsConstants.S_IFREG) {
    const kind = SPECIAL_KINDS.find((each) => TYPE_BITS[each] === type)
    if (kind === undefined) throw new DriveError('not-permitted', 'There is no node of this kind.')
    await drive.makeNode(parent, name, { mode: mode & 0o7777, uid, gid }, { kind, device })
    return
  }
  const { handle } = await drive.create(parent, name, mode & 0o7777, { owner: { uid, gid } })
  try {
    await drive.flush(handle)
  } finally {
    await drive.release(handle)
  }
}
