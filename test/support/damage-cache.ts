import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/**
 * Changes a byte of each complete content in the cache of an account's machine, as a failing disk does; answers of how many.
 * `place` is from 0 to below 1.
 */
export function damageCache({ dir }: { readonly dir: string }, place: number): number {
  const cache = join(dir, 'state', 'cache')
  const paths = readdirSync(cache, { recursive: true, encoding: 'utf8' })
    .map((name) => join(cache, name))
    .filter((path) => /[0-9a-f]{64}$/.test(path) && statSync(path).isFile())
  for (const path of paths) {
    const bytes = readFileSync(path)
    const at = Math.floor(bytes.length * place)
    bytes[at] = (bytes[at] ?? 0) ^ 0x55
    // The trash may have the same file under a second name.
    rmSync(path)
    writeFileSync(path, bytes, { mode: 0o600 })
  }
  return paths.length
}
