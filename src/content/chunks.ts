/** Cuts chunks in two after `bytes`, without a copy: one list where they are no more, else two. */
export function cutAt(
  chunks: readonly Uint8Array[],
  bytes: number,
): readonly (readonly Uint8Array[])[] {
  const rest = withoutFirst(chunks, bytes)
  if (rest.length === 0) return [chunks]
  const whole = chunks.slice(0, chunks.length - rest.length)
  const [cut] = rest
  const inCut = chunks[whole.length]
  if (cut === undefined || inCut === undefined || cut.length === inCut.length) return [whole, rest]
  return [[...whole, inCut.subarray(0, inCut.length - cut.length)], rest]
}

/** What is left of chunks behind their first `count` bytes, without a copy. */
export function withoutFirst(chunks: readonly Uint8Array[], count: number): readonly Uint8Array[] {
  let left = count
  for (const [index, chunk] of chunks.entries()) {
    if (left < chunk.length) return [chunk.subarray(left), ...chunks.slice(index + 1)]
    left -= chunk.length
  }
  return []
}
