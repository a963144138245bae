import { describe, expect, it } from 'vitest'
import type { NodeId } from '../../../../src/domain/ids.ts'
import {
  fixedDirectory,
  textFile,
  type VirtualDirectory,
  type VirtualEntry,
  type VirtualFile,
} from '../../../../src/drive/virtual/virtual-entry.ts'
import { Nodes, ROOT } from '../../../../src/drive/tree/nodes.ts'
import { VirtualHome } from '../../../../src/drive/virtual/virtual-home.ts'
import { DriveError } from '../../../../src/domain/errors.ts'
import type { OpenFile } from '../../../../src/drive/tree/open-file.ts'
import { ManualClock } from '../../namespace/manual-clock.ts'

const READ = { writable: false, truncate: false }
const refused = { code: 'not-permitted' }

function grow(
  entries: Record<string, VirtualEntry>,
  clock = new ManualClock(),
  nodes = new Nodes(),
) {
  return new VirtualHome({ nodes, clock }, fixedDirectory(new Map(Object.entries(entries))))
}

async function readText(file: OpenFile, position = 0): Promise<string> {
  const buffer = Buffer.alloc(100)
  const count = await file.read(buffer, position)
  return buffer.subarray(0, count).toString()
}

/** A file that counts how often it was made. */
function counter(clock: ManualClock): VirtualFile {
  let made = 0
  return textFile(
    () => {
      made += 1
      return 'x'.repeat(made)
    },
    () => clock.now(),
  )
}

describe('a made-up tree', () => {
  it('lists, finds and reads what it is given', async () => {
    const clock = new ManualClock()
    const file = textFile(
      () => 'hello',
      () => 5,
    )
    const tree = grow({ file, inner: fixedDirectory(new Map([['deep', file]])) }, clock)
    expect(await tree.readDirectory(tree.top)).toEqual([
      { name: 'file', kind: 'file' },
      { name: 'inner', kind: 'directory' },
    ])
    const inner = await tree.lookup(tree.top, 'inner')
    expect(inner.kind).toBe('directory')
    const deep = await tree.lookup(inner.node, 'deep')
    expect(deep).toMatchObject({ kind: 'file', size: 5, mtimeMs: 5, mode: 0o400 })
    const opened = await tree.open(deep.node, READ)
    expect(await readText(opened)).toBe('hello')
    expect(await readText(opened, 3)).toBe('lo')
    expect(await readText(opened, 9)).toBe('')
    await opened.close()
  })

  it('gives one file one node, and a name that is gone nothing', async () => {
    const file = textFile(
      () => 'x',
      () => 0,
    )
    let found: VirtualEntry | undefined = file
    const changing: VirtualDirectory = { kind: 'directory', names: () => [], find: () => found }
    const nodes = new Nodes()
    const tree = grow({ changing }, new ManualClock(), nodes)
    const { node } = await tree.lookup(tree.top, 'changing')
    const first = await tree.lookup(node, 'a')
    expect((await tree.lookup(node, 'a')).node).toBe(first.node)
    found = undefined
    await expect(tree.lookup(node, 'a')).rejects.toMatchObject({ code: 'not-found' })
    expect(nodes.get(first.node)).toBeUndefined()
  })

  it('forgets a file that turns out to have no content', async () => {
    const nodes = new Nodes()
    const open = () => Promise.reject(new DriveError('gone', 'No such bag.'))
    const tree = grow({ a: { kind: 'file', open } }, new ManualClock(), nodes)
    await expect(tree.lookup(tree.top, 'a')).rejects.toMatchObject({ code: 'gone' })
    const known = [...Array(200).keys()].filter((id) => nodes.get(id as NodeId) !== undefined)
    expect(known).toEqual([ROOT, tree.top])
  })

  it('refuses every change', async () => {
    const file = textFile(
      () => 'x',
      () => 0,
    )
    const tree = grow({ file })
    const { node } = await tree.lookup(tree.top, 'file')
    await expect(tree.open(node, { writable: true, truncate: false })).rejects.toMatchObject(
      refused,
    )
    await expect(tree.open(node, { writable: false, truncate: true })).rejects.toMatchObject(
      refused,
    )
    await expect(tree.create(tree.top, 'new')).rejects.toMatchObject(refused)
    await expect(tree.makeDirectory(tree.top, 'new')).rejects.toMatchObject(refused)
    await expect(tree.setAttributes(node, {})).rejects.toMatchObject(refused)
    for (const refusal of [tree.unlink(), tree.rename(), tree.removeDirectory(), tree.truncate()]) {
      await expect(refusal).rejects.toMatchObject(refused)
    }
    const opened = await tree.open(node, READ)
    await expect(opened.truncate(0)).rejects.toMatchObject(refused)
    expect(() => opened.write(Buffer.from('x'), 0)).toThrow(
      expect.objectContaining({ code: 'bad-handle' }),
    )
    await opened.close()
  })

  it('refuses what is written to a file that `touch` opens', async () => {
    const touched = textFile(
      () => 'x',
      () => 0,
    )
    const tree = grow({ file: { ...touched, touch: () => Promise.resolve() } })
    const { node } = await tree.lookup(tree.top, 'file')
    const opened = await tree.open(node, { writable: true, truncate: false })
    await expect(opened.write(Buffer.from('x'), 0)).rejects.toMatchObject(refused)
    await expect(opened.flush()).rejects.toMatchObject(refused)
    await opened.close()
  })
})

describe('the content of a made-up file', () => {
  it('has the size that was told, however it changes in between', async () => {
    const clock = new ManualClock()
    const tree = grow({ file: counter(clock) }, clock)
    const { node } = await tree.lookup(tree.top, 'file')
    const { size } = await tree.getAttributes(node)
    clock.move(900)
    const opened = await tree.open(node, READ)
    expect(await readText(opened)).toHaveLength(size)
  })

  it('keeps to a size told late, when it is opened by way of another look-up', async () => {
    const clock = new ManualClock()
    const tree = grow({ file: counter(clock) }, clock)
    const { node } = await tree.lookup(tree.top, 'file')
    clock.move(990)
    const { size } = await tree.getAttributes(node)
    clock.move(900)
    await tree.lookup(tree.top, 'file')
    const opened = await tree.open(node, READ)
    expect(await readText(opened)).toHaveLength(size)
  })

  it('is made anew for who looks a second later, also for who keeps looking', async () => {
    const clock = new ManualClock()
    const tree = grow({ file: counter(clock) }, clock)
    const { node } = await tree.lookup(tree.top, 'file')
    const sizes = []
    for (let look = 0; look < 6; look += 1) {
      sizes.push((await tree.getAttributes(node)).size)
      clock.move(500)
    }
    expect(sizes).toEqual([1, 1, 2, 2, 3, 3])
  })

  it('stays the same for who reads it slowly, but not for ever for others', async () => {
    const clock = new ManualClock()
    const tree = grow({ file: counter(clock) }, clock)
    const { node } = await tree.lookup(tree.top, 'file')
    const slow = await tree.open(node, READ)
    clock.move(5_000)
    expect((await tree.getAttributes(node)).size).toBe(1)
    clock.move(6_000)
    expect((await tree.getAttributes(node)).size).toBe(2)
    expect(await readText(slow)).toBe('x')
  })

  it('is closed once, when nobody reads it and nobody remembers its size', async () => {
    const clock = new ManualClock()
    let closed = 0
    const source = {
      length: () => Promise.resolve(1),
      read: () => Promise.resolve(1),
      readNow: () => 1,
      close: () => (closed += 1),
    }
    const open = () => Promise.resolve({ source, size: 1, mtimeMs: 0 })
    const tree = grow({ file: { kind: 'file', open } }, clock)
    const { node } = await tree.lookup(tree.top, 'file')
    const opened = await tree.open(node, READ)
    await opened.read(Buffer.alloc(1), 0)
    clock.move(5_000)
    expect(closed).toBe(0)
    await opened.close()
    expect(closed).toBe(1)
    clock.move(5_000)
    expect(closed).toBe(1)
    expect(clock.waiting).toBe(0)
  })

  it('gives the content of now to a reader whose reads no size cuts', async () => {
    const clock = new ManualClock()
    const tree = grow({ file: counter(clock) }, clock)
    const { node } = await tree.lookup(tree.top, 'file')
    const open: OpenFile[] = []
    const read: string[] = []
    for (let look = 0; look < 5; look += 1) {
      await tree.lookup(tree.top, 'file')
      const file = await tree.open(node, { ...READ, isUncut: true })
      await tree.getAttributes(node)
      read.push(await readText(file))
      open.push(file)
      clock.move(600)
    }
    expect(read).toEqual(['x', 'x', 'xx', 'xx', 'xxx'])
    for (const file of open) await file.close()
  })
})
