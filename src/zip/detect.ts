import { extensionOf, FILE_EXTENSIONS, ZIP_BASED_EXTENSIONS } from './extensions.ts'
import type { FolderNaming } from '../domain/folder-names.ts'
import { EXTRA, LENGTH, OWN_MARK, SIGNATURE } from './zip-format.ts'
import { extraFields } from './zip-parse.ts'

export type BagKind = 'file' | 'folder'

/** The head of a download, as far as it tells what the bag is. */
export interface DownloadHead {
  /** The first bytes, as far as the name of the first member goes; fewer only when the bag has fewer. */
  readonly bytes: Uint8Array
  readonly contentType: string | undefined
  /** File name of `Content-Disposition`. */
  readonly fileName: string | undefined
  /** Name of the record in the listing. */
  readonly recordName: string
}

/** `file` for names that are files without asking the service (a well-known extension), else undefined. */
export function kindFromName(recordName: string): 'file' | undefined {
  return FILE_EXTENSIONS.has(extensionOf(recordName)) ? 'file' : undefined
}

/**
 * What a bag is by the head of its download. A zip is a folder, unless its name, type or first
 * member tells a document or program whose format is a zip inside. Where folders are, or may be,
 * listed as NAME.zip (`names`), one of that name is a folder only when this program packed it.
 * Another program's may as well be a file.
 */
export function kindFromHead(head: DownloadHead, names?: FolderNaming): BagKind {
  if (!looksLikeZip(head.bytes)) return 'file'
  const extension = extensionOf(head.recordName)
  const isOwn = isOwnFolder(head.bytes)
  if (extension === 'zip') return isOwn && names !== 'plain' ? 'folder' : 'file'
  if (ZIP_BASED_EXTENSIONS.has(extension)) return 'file'
  if (isOwn) return 'folder'
  if (isOtherType(head.contentType) || isDocument(head.bytes)) return 'file'
  // The service may list a document without its extension and tell its file name only here.
  return ZIP_BASED_EXTENSIONS.has(extensionOf(head.fileName ?? '')) ? 'file' : 'folder'
}

/** True when the bytes start a zip: a local header, or the end record of an empty one. */
export function looksLikeZip(firstBytes: Uint8Array): boolean {
  const signature = signatureOf(firstBytes)
  return signature === SIGNATURE.local || signature === SIGNATURE.end
}

/** True for the head of a folder's zip that this program packed. */
export function isOwnFolder(firstBytes: Uint8Array): boolean {
  const bytes = Buffer.from(firstBytes.buffer, firstBytes.byteOffset, firstBytes.byteLength)
  if (bytes.length < LENGTH.local || signatureOf(bytes) !== SIGNATURE.local) return false
  const start = LENGTH.local + bytes.readUInt16LE(26)
  const extra = bytes.subarray(start, start + bytes.readUInt16LE(28))
  return extraFields(extra).some(({ tag, body }) => tag === EXTRA.own && body.equals(OWN_MARK))
}

function signatureOf(bytes: Uint8Array): number {
  if (bytes.length < 4) return 0
  return new DataView(bytes.buffer, bytes.byteOffset, 4).getUint32(0, true)
}

/** True for a type that names another format; one that only says "bytes" tells nothing. */
function isOtherType(contentType: string | undefined): boolean {
  const type = contentType?.split(';')[0]?.trim().toLowerCase() ?? ''
  return /^(application\/(vnd\.|java-archive|epub)|image\/|audio\/|video\/)/.test(type)
}

/** First members that documents have by their formats: OpenDocument and EPUB, Office Open XML. */
const DOCUMENT_FIRST_ENTRIES: readonly string[] = ['mimetype', '[Content_Types].xml']
const NAME_AT = 30

function isDocument(bytes: Uint8Array): boolean {
  if (bytes.length < NAME_AT || signatureOf(bytes) !== SIGNATURE.local) return false
  const length = new DataView(bytes.buffer, bytes.byteOffset).getUint16(26, true)
  const name = Buffer.from(bytes.subarray(NAME_AT, NAME_AT + length)).toString('latin1')
  return DOCUMENT_FIRST_ENTRIES.includes(name)
}
