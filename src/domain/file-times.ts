/** When a file was last written and last changed in any way; the times of a `stat` with `bigint`. */
interface FileTimes {
  readonly mtimeNs: bigint
  readonly ctimeNs: bigint
}

/**
 * True when a file was not changed between two looks at it. The second time tells where a program has set the first
 * one back.
 */
export function isUnchanged(before: FileTimes, after: FileTimes): boolean {
  return before.mtimeNs === after.mtimeNs && before.ctimeNs === after.ctimeNs
}
