/**
 * Numbers and shapes of the zip format (PKWARE APPNOTE 6.3, sections 4.3 to 4.6). All integers in a
 * zip are little-endian.
 */
export const SIGNATURE = {
  local: 0x04034b50,
  descriptor: 0x08074b50,
  central: 0x02014b50,
  digitalSignature: 0x05054b50,
  end: 0x06054b50,
  zip64End: 0x06064b50,
  zip64Locator: 0x07064b50,
} as const

/** Bytes of each record without its variable parts. */
export const LENGTH = { local: 30, central: 46, end: 22, zip64End: 56, zip64Locator: 20 } as const

/** Compression methods. The format's own name for `uncompressed` is "stored". */
export const METHOD = { uncompressed: 0, deflated: 8 } as const

export const FLAG = {
  encrypted: 0x0001,
  /** CRC and sizes follow the data instead of standing before it. */
  descriptor: 0x0008,
  utf8: 0x0800,
} as const

/**
 * Tags of extra fields; `timestamp`, `unicodePath` and `owner` are Info-ZIP's, `own` is ours: `OWN_MARK` in the first local
 * header, a time in the directory.
 */
export const EXTRA = {
  zip64: 0x0001,
  ntfs: 0x000a,
  timestamp: 0x5455,
  own: 0x6762,
  unicodePath: 0x7075,
  owner: 0x7875,
} as const

/** Upper byte of "version made by": whose attributes a member carries. */
export const HOST = { fat: 0, unix: 3, macOs: 19 } as const

/** What stands for no user and no group, as in chown(2). */
export const NO_OWNER = 0xffffffff

/** A field of this value has its real number in the zip64 extra field or record. */
export const MAX_16 = 0xffff
export const MAX_32 = 0xffffffff

export const S_IFMT = 0o170000
export const S_IFDIR = 0o040000
export const S_IFREG = 0o100000
export const S_IFLNK = 0o120000

/**
 * Archive comment of the zips this program writes. It tells that paths are relative to the folder
 * itself. So a folder `x` that holds only a directory `x` is not taken for one top directory.
 */
export const OWN_COMMENT = 'bagfs'

/**
 * Body of an extra field in the first local header of these zips. So the head of a download tells
 * what otherwise only its end tells. Other programs step over fields that they do not know.
 */
export const OWN_MARK = Buffer.from('bagfs', 'latin1')

/** What the central directory says of a member's data. Nothing in it is to be trusted. */
export interface ZipMember {
  readonly method: number
  readonly flags: number
  readonly versionNeeded: number
  /** MS-DOS time in the lower and date in the upper 16 bits. */
  readonly dosTime: number
  readonly crc32: number
  /** Bytes. */
  readonly compressedSize: number
  /** Bytes when inflated. */
  readonly size: number
  /** Position of the local header in the source. */
  readonly offset: number
  /** Position of the central record in the source. */
  readonly recordPosition: number
}

export function isEncrypted(member: ZipMember): boolean {
  return (member.flags & FLAG.encrypted) !== 0
}
