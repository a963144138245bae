import { describe, expect, it } from 'vitest'
import { readLinkTargets, staysInside } from '../../../src/zip/links.ts'
import { openArchive } from '../../../src/zip/archive.ts'
import { DriveError } from '../../../src/domain/errors.ts'
import { nodeAt, walkTree } from '../../../src/zip/tree.ts'
import { bytesSource, contentOf, leafAt, LIMITS, openBytes, rawZip, tempDir } from './support.ts'
import type { RawEntry } from './support.ts'

const link = (name: string, target: string | Uint8Array): RawEntry => ({
  name,
  content: target,
  mode: 0o120777,
})

/** The target of a link at `a/b/link` beside some directories, or undefined when it is a plain file. */
async function targetOf(target: string | Uint8Array, ...others: RawEntry[]): Promise<unknown> {
  const archive = await openBytes(
    rawZip([{ name: 'real/deep/' }, link('a/b/link', target), ...others]),
  )
  await readLinkTargets(archive, walkTree(archive.root))
  const node = leafAt(archive, 'a/b/link')
  return node.type === 'symlink' ? node.linkTarget : undefined
}

describe('readLinkTargets', () => {
  it.each(['x', './x', '../x', '../../x', '../../real/deep/../x', 'missing/x', '../b//link'])(
    'shows a symlink to %s, which stays inside',
    async (target) => {
      expect(await targetOf(target)).toBe(target)
    },
  )

  it.each([
    '/etc/passwd',
    '../../../x',
    '../../..',
    '../../real/../../x',
    'missing/../../../../x',
    'missing/../x',
    '',
    'nul\0',
    'x'.repeat(5000),
  ])('shows a symlink to %j as a plain file', async (target) => {
    expect(await targetOf(target)).toBeUndefined()
  })

  it('sees through symlinks that lead up', async () => {
    const up = link('a/up', '..')
    expect(await targetOf('../up/x', up)).toBe('../up/x')
    expect(await targetOf('../up/../x', up)).toBeUndefined()
  })

  it('shows link text that is no UTF-8, damaged or encrypted as a plain file', async () => {
    expect(await targetOf(Buffer.from([0xff, 0xfe]))).toBeUndefined()
    const archive = await openBytes(
      rawZip([
        { ...link('crc', 'x'), crc: 1 },
        { ...link('secret', 'x'), flags: 1 },
      ]),
    )
    await readLinkTargets(archive, walkTree(archive.root))
    expect([nodeAt(archive.root, 'crc')?.type, nodeAt(archive.root, 'secret')?.type]).toEqual([
      'file',
      'file',
    ])
  })

  it('gives the link text as the content of a link that leaves', async () => {
    const archive = await openBytes(rawZip([link('out', '/etc/passwd')]))
    await readLinkTargets(archive, walkTree(archive.root))
    const node = leafAt(archive, 'out')
    expect(node).toMatchObject({ type: 'file', zippedAs: 'symlink' })
    expect((await contentOf(archive, node, await tempDir())).toString()).toBe('/etc/passwd')
  })

  it('tells when the source cannot be read now, and settles later', async () => {
    const bytes = rawZip([link('l', 'x')])
    const good = bytesSource(bytes)
    let isDown = false
    const source = {
      length: good.length,
      read: (buffer: Uint8Array, position: number): Promise<number> =>
        isDown
          ? Promise.reject(new DriveError('unavailable', 'No network.'))
          : good.read(buffer, position),
    }
    const archive = await openArchive(source, { limits: LIMITS })
    isDown = true
    const settling = readLinkTargets(archive, walkTree(archive.root))
    await expect(settling).rejects.toMatchObject({ code: 'unavailable' })
    isDown = false
    await readLinkTargets(archive, walkTree(archive.root))
    expect(leafAt(archive, 'l').linkTarget).toBe('x')
  })
})

describe('staysInside', () => {
  it('asks any tree', () => {
    const steps = {
      up: (path: string) => (path === '' ? undefined : path.split('/').slice(0, -1).join('/')),
      down: () => undefined,
    }
    expect(staysInside('../x', 'a', steps)).toBe(true)
    expect(staysInside('../../x', 'a', steps)).toBe(false)
  })
})
