import type { Stats } from 'node:fs'

/** What stat counts blocks in. */
export const BLOCK_BYTES = 512

/**
 * Bytes that a file with holes takes of the local disk; undefined for all other. It is one block at least, as `tar` takes
 * a file that has none for one without data, and some file systems count late.
 */
export function allocatedOf({ size, blocks }: Pick<Stats, 'size' | 'blocks'>): number | undefined {
  const bytes = Math.max(1, blocks) * BLOCK_BYTES
  return bytes < size ? bytes : undefined
}
