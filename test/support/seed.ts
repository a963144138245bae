/**
 * The seed of random tests. It is the same each time, so that a red build is the fault of a change; BAGFS_SEED=N
 * takes another, BAGFS_SEED=0 a fresh one. A test prints the seed that it ran with.
 */
const CHOSEN = Number(process.env['BAGFS_SEED'] ?? 20_261_122)
export const SEED = CHOSEN === 0 ? Date.now() % 1_000_000_000 : CHOSEN

/** A linear congruential generator, so that a run can be repeated from its seed. */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}

/** Bytes that deflate cannot shorten, the same for the same seed. */
export function noiseOf(length: number, seed = 1): Buffer {
  const next = seededRandom(seed * 2_654_435_761)
  return Buffer.from(Uint8Array.from({ length }, () => next() * 256))
}
