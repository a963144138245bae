import { setFlagsFromString } from 'node:v8'

/**
 * Arguments of node for a process that runs a drive; they cannot be set later. What a drive
 * allocates for one call dies with it, so a young generation of 1 MB will do. It saves 20 MB of
 * memory, at the same speed. One thread beside the main one compiles and collects: three more cost 6 MB, and a drive is
 * no faster with them.
 */
export const V8_ARGUMENTS: readonly string[] = ['--max-semi-space-size=1', '--v8-pool-size=1']

/**
 * Flags that can still be set in a process that runs.
 * - The growth of the heap: each block that the kernel reads counts as external memory. Without this flag V8 marked the
 *   whole heap 25 times while 512 MiB went by, a sixth of the time of a first read. The value 300 lets the heap grow to
 *   four times of what is alive, V8's own upper bound.
 * - The growth of the young generation: it stays as small as it begins, also where `V8_ARGUMENTS` were not given. Else it
 *   grows to 32 MB while thousands of small files come in.
 * - The budget of WebAssembly, in which the HTTP client parses answers. V8 of Node 20 optimizes that code after a handful
 *   of them, for a sixth of the processor time of a start. This budget, in bytes of code that ran, waits for a hundred
 *   times as many.
 */
export const V8_FLAGS: readonly string[] = [
  '--heap-growing-percent=300',
  '--semi-space-growth-factor=1',
  '--wasm-tiering-budget=200000000',
]

/** To be called before most of the program is loaded. */
export function tuneV8(): void {
  for (const flag of V8_FLAGS) setFlagsFromString(flag)
}
