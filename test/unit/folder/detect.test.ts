import { describe, expect, it } from 'vitest'
import { kindFromHead, kindFromName, looksLikeZip } from '../../../src/folder/detect.ts'
import { rawZip } from './support.ts'

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

describe('kindFromName', () => {
  it('knows names that need no look', () => {
    expect(kindFromName('holiday.JPG')).toBe('file')
    expect(kindFromName('notes.txt')).toBe('file')
    expect(kindFromName('photos')).toBeUndefined()
    expect(kindFromName('.txt')).toBeUndefined()
    expect(kindFromName('release-1.2')).toBeUndefined()
  })
})
