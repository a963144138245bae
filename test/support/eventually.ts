import { vi } from 'vitest'

/** As long as `expect.poll` waits: a limit against hanging only, on a machine that may be busy. */
const PATIENCE = { timeout: 120_000, interval: 20 }

/** What `look` gives once it no longer throws. Serves tests that run beside each other, too; `expect.poll` does not. */
export function eventually<T>(look: () => T | Promise<T>): Promise<T> {
  return vi.waitFor(look, PATIENCE)
}
