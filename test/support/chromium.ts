import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { chromium, type Browser } from 'playwright-core'

/** Debian's. */
const PROGRAM = '/usr/bin/chromium'

/**
 * True when there is a browser for the tests of pages. Says loudly when they are skipped; with BAGFS_REQUIRE_MOUNT=1, as
 * in CI, a machine without one fails instead.
 */
export function canBrowse(): boolean {
  if (existsSync(PROGRAM)) return true
  if (process.env['BAGFS_REQUIRE_MOUNT'] === '1') {
    throw new Error(`Tests of pages cannot run: ${PROGRAM} is missing.`)
  }
  console.error(
    `\n*** TESTS OF PAGES SKIPPED: ${PROGRAM} is missing. Nothing below proves that pages work. ***\n`,
  )
  return false
}

/** A browser without a window; it keeps what it writes in a directory that it removes. */
export async function openBrowser(): Promise<Browser> {
  const dir = mkdtempSync(join(tmpdir(), 'bagfs-browser-'))
  const asRoot = process.getuid?.() === 0 ? ['--no-sandbox'] : []
  const browser = await chromium.launch({
    executablePath: PROGRAM,
    // Small containers have a small /dev/shm.
    args: [...asRoot, '--disable-dev-shm-usage'],
    env: { ...process.env, HOME: dir, XDG_CONFIG_HOME: dir, XDG_CACHE_HOME: dir },
  })
  browser.once('disconnected', () => {
    rmSync(dir, { recursive: true, force: true, maxRetries: 10 })
  })
  return browser
}
