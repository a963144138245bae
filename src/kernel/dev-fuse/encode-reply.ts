import { OUT_HEADER, UNIQUE_AT } from './structures.ts'

/** An answer as the kernel wants it: a header, and what it is told. */
export function encodeAnswer(unique: bigint, parts: readonly Uint8Array[]): readonly Uint8Array[] {
  return [header(unique, 0, parts), ...parts]
}

/** `errno` is positive. */
export function encodeRefusal(unique: bigint, errno: number): readonly Uint8Array[] {
  return [header(unique, -errno, [])]
}

/** What the kernel is told unasked has the number 0, and its code where answers have their error. */
export function encodeNotice(code: number, parts: readonly Uint8Array[]): readonly Uint8Array[] {
  return [header(0n, code, parts), ...parts]
}

function header(unique: bigint, error: number, parts: readonly Uint8Array[]): Buffer {
  const length = parts.reduce((sum, part) => sum + part.length, OUT_HEADER.size)
  const bytes = OUT_HEADER.encode({ length, error })
  bytes.writeBigUInt64LE(unique, UNIQUE_AT)
  return bytes
}
