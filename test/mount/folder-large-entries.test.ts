import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { canMount } from '../support/fuse.ts'
import { Bench } from '../support/mounted-drive.ts'

const CACHE_BYTES = 20_000_000
const ZEROS = 105_000_000
const PATTERN =
  'python3 -c "import sys; sys.stdout.buffer.write(b\'0123456789abcdef\' * 2_000_000)"'

describe.runIf(canMount())('a file of a folder that is larger than the cache', () => {
  let bench: Bench
  beforeEach(async () => {
    bench = await Bench.start()
  })
  afterEach(async () => {
    await bench.close()
  })

  const mountAnew = async () => {
    rmSync(bench.stateDir, { recursive: true, force: true })
    return bench.mount('--cache-size', `${CACHE_BYTES}`, '--folder-settle', '1h')
  }

  it('is read, changed, moved out and fetched, also when it deflates to nearly nothing', async () => {
    const first = await mountAnew()
    await first.sh(
      `mkdir F; truncate -s ${ZEROS} F/zeros; ${PATTERN} > F/pattern; echo s > F/small`,
    )
    await first.leave()
    const drive = await mountAnew()
    expect(
      await drive.sh(`cmp F/zeros <(head -c ${ZEROS} /dev/zero); cmp F/pattern <(${PATTERN})`),
    ).toBe('')
    // Runs of zeros take no room on the disk: neither inflated nor copied.
    expect(await drive.sh('tail -c 1 F/zeros | od -An -tx1; du -sm ../state | cut -f1')).toMatch(
      /^ 00\n\d\d?\n$/,
    )
    await drive.sh('echo x >> F/pattern; mv F/zeros .')
    expect(await bench.bagfs(['sync', bench.mountpoint])).toMatchObject({ code: 0 })
    const env = { BAGFS_URL: bench.service.proxy.url, BAGFS_TOKEN: bench.service.token }
    const out = join(bench.dir, 'out')
    expect(await bench.bagfs(['get', 'F', out], { env })).toMatchObject({ code: 0, stderr: '' })
    const fetched = 'cd ../out; ls; cmp pattern <(' + PATTERN + '; echo x)'
    expect(await drive.sh(fetched)).toBe('pattern\nsmall\n')
    const moved = (await bench.service.list()).find(({ filename }) => filename === 'zeros')
    expect(moved?.size).toBe(ZEROS)
  })
})
