import { expect, it } from 'vitest'
import { News } from '../../../src/drive/tree/news.ts'
import { Nodes } from '../../../src/drive/tree/nodes.ts'
import { RootNames } from '../../../src/drive/root/root-names.ts'

it('a node that gets a name after it lost its last one is found by its id again', () => {
  const nodes = new Nodes()
  const names = new RootNames({ nodes, news: new News() }, { isFolder: () => false })
  const node = names.addNew('a')
  names.unlink(node)
  expect(nodes.get(node.id)).toBeUndefined()
  names.rename(node, 'a', 'a')
  expect(nodes.get(node.id)).toBe(node)
})
