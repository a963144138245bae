import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { isOwnFolder, kindFromHead, kindFromName, looksLikeZip } from '../../../src/zip/detect.ts'
import { writeArchive } from '../../../src/zip/write.ts'
import { fileOf, rawZip, tempDir } from './support.ts'

const zip = rawZip([{ name: 'a.txt', content: 'a' }])
const head = { bytes: zip, contentType: undefined, fileName: undefined, recordName: 'photos' }

describe('looksLikeZip', () => {
  it('knows zips, also empty ones, by their first bytes', () => {
    expect(looksLikeZip(zip)).toBe(true)
    expect(looksLikeZip(rawZip([]))).toBe(true)
    expect(looksLikeZip(Buffer.from('PK'))).toBe(false)
    expect(looksLikeZip(Buffer.from('plain text'))).toBe(false)
    expect(looksLikeZip(new Uint8Array())).toBe(false)
  })
})

describe('kindFromHead', () => {
  it('takes a zip under a name without .zip for a folder', () => {
    expect(kindFromHead(head)).toBe('folder')
    expect(kindFromHead({ ...head, recordName: 'v1.2', fileName: 'v1.2.zip' })).toBe('folder')
    expect(kindFromHead({ ...head, contentType: 'application/x-zip-compressed' })).toBe('folder')
    expect(kindFromHead({ ...head, bytes: rawZip([]) })).toBe('folder')
  })

  it.each([
    ['bytes that are no zip', { bytes: Buffer.from('text') }],
    ['a name with .zip', { recordName: 'photos.ZIP' }],
    ['a name of a format that is a zip inside', { recordName: 'report.docx' }],
    ['a download named so', { fileName: 'report.docx' }],
    ['the type of a document', { contentType: 'Application/VND.oasis.opendocument.text; x=y' }],
    ['the first entry of a document', { bytes: rawZip([{ name: 'mimetype', content: 'a/b' }]) }],
    ['the first entry of an office file', { bytes: rawZip([{ name: '[Content_Types].xml' }]) }],
  ])('takes %s for a file', (_what, changes) => {
    expect(kindFromHead({ ...head, ...changes })).toBe('file')
  })
})

describe('the zip of a folder that was packed here', () => {
  const packed = async (...names: readonly string[]): Promise<Buffer> => {
    const dir = await tempDir()
    const path = join(dir, 'zip')
    const content = await fileOf(dir, 'content', 'content')
    await writeArchive(
      names.map((name) => ({ type: 'file', path: name, mode: 0o644, mtimeMs: 0, content })),
      path,
    )
    return (await readFile(path)).subarray(0, 2_048)
  }

  it('is a folder under NAME.zip, but not where folders are listed as NAME', async () => {
    const own = { ...head, bytes: await packed('a', 'b'), recordName: 'photos.zip' }
    expect(kindFromHead(own)).toBe('folder')
    expect(kindFromHead(own, 'zipped')).toBe('folder')
    expect(kindFromHead(own, 'plain')).toBe('file')
    expect(kindFromHead({ ...head, recordName: 'photos.zip' }, 'zipped')).toBe('file')
  })

  it('is known by its first entry, however long its name and whatever it is called', async () => {
    for (const name of ['mimetype', `${'d/'.repeat(800)}f`]) {
      const bytes = await packed(name, 'last')
      expect(isOwnFolder(bytes)).toBe(true)
      expect(kindFromHead({ ...head, bytes })).toBe('folder')
    }
    for (const length of [0, 10, 31, 40]) expect(isOwnFolder(zip.subarray(0, length))).toBe(false)
    expect(isOwnFolder(zip)).toBe(false)
  })
})

describe('kindFromName', () => {
  it('knows names that need no look', () => {
    expect(kindFromName('holiday.JPG')).toBe('file')
    expect(kindFromName('notes.txt')).toBe('file')
    expect(kindFromName('photos')).toBeUndefined()
    expect(kindFromName('.txt')).toBeUndefined()
    expect(kindFromName('release-1.2')).toBeUndefined()
  })
})
