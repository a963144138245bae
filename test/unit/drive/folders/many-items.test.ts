import { describe, expect, it } from 'vitest'
import type { NodeId } from '../../../../src/domain/ids.ts'
import { Children, itemsOf } from '../../../../src/drive/folders/items.ts'
import type { DirectoryItem } from '../../../../src/drive/folders/items.ts'
import { takeSnapshot } from '../../../../src/drive/folders/packing.ts'
import type { Archive } from '../../../../src/zip/archive.ts'
import type { ArchiveNode, DirectoryNode } from '../../../../src/zip/tree.ts'

/** More than fit into one call as its arguments. */
const MANY = 200_000

function top(given: Partial<DirectoryItem>): DirectoryItem {
  const base = { id: 1 as NodeId, parent: undefined, name: '', mode: 0o755, mtimeMs: 0 }
  return { ...base, type: 'directory', children: undefined, archived: undefined, ...given }
}

describe('a directory with 200,000 entries', () => {
  it('goes into a zip although nobody looked into it', () => {
    const children = new Map<string, ArchiveNode>()
    const root: DirectoryNode = {
      ...{ type: 'directory', name: '', parent: undefined, mode: 0o755, mtimeMs: 0 },
      children,
    }
    for (let number = 0; number < MANY; number += 1) {
      const name = String(number)
      const directory = { parent: root, mode: 0o755, mtimeMs: 0, children: new Map() }
      children.set(name, { type: 'directory', name, ...directory })
    }
    const source = { length: 0, read: () => Promise.resolve(0) }
    const archive: Archive = { root, source }

    const { plan } = takeSnapshot({ top: top({ archived: root }), archive })

    expect(plan).toHaveLength(MANY)
  })

  it('is walked when somebody did', () => {
    const children = new Children()
    const directory = top({ children })
    for (let number = 0; number < MANY; number += 1) {
      const name = String(number)
      children.set(name, { ...directory, id: number as NodeId, name, children: undefined })
    }

    expect([...itemsOf(directory)]).toHaveLength(MANY + 1)
  })
})
