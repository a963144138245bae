import { DriveError } from '../domain/errors.ts'
import { walkTree } from './tree.ts'
import type { DirectoryNode } from './tree.ts'
import { LENGTH } from './zip-format.ts'

/**
 * Refuses a zip whose members share bytes: a small one of that kind unpacks to any size.
 * @throws DriveError `corrupt`
 */
export function refuseOverlaps(root: DirectoryNode): void {
  const members = []
  for (const node of walkTree(root)) if (node.type !== 'directory') members.push(node.member)
  members.sort((one, other) => one.offset - other.offset)
  let end = 0
  for (const { offset, compressedSize } of members) {
    if (offset < end) {
      throw new DriveError('corrupt', 'The zip is damaged, or a trap: its entries share bytes.', {
        hint: 'With --zip it is kept as it is.',
      })
    }
    // Not its name, which the local header may tell otherwise: less is left out than in.
    end = offset + LENGTH.local + compressedSize
  }
}
