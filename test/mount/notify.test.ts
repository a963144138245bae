import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { canMount } from '../support/fuse.ts'
import { Bench, MountedDrive } from '../support/mounted-drive.ts'

const REFUSED = {
  status: 422,
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify({
    detail: [{ loc: ['body', 'file'], msg: 'No <such> names & so on.', type: 'validation_error' }],
  }),
}

let bench: Bench
let drive: MountedDrive | undefined
beforeEach(async () => {
  bench = await Bench.start()
})
afterEach(async () => {
  await drive?.kill()
  await bench.close()
})

/** A program called notify-send that writes down how it was called, a line for each argument. */
function makeNotifySend(): { readonly dir: string; readonly calls: () => readonly string[] } {
  const dir = join(bench.dir, 'programs')
  const said = join(bench.dir, 'notified')
  mkdirSync(dir)
  const script = `#!/bin/sh\n{ echo "called"; for each; do echo "$each"; done; } >> ${said}\n`
  writeFileSync(join(dir, 'notify-send'), script, { mode: 0o755 })
  return {
    dir,
    calls: () => (existsSync(said) ? readFileSync(said, 'utf8').trimEnd().split('\n') : []),
  }
}

/** A drive of a person at a desktop. */
async function mountAtDesktop(path: string): Promise<MountedDrive> {
  drive = await MountedDrive.mount(
    { url: bench.service.proxy.url, token: bench.service.token },
    { mountpoint: bench.mountpoint, stateDir: bench.stateDir },
    ['--write-back'],
    { DISPLAY: ':0', PATH: path },
  )
  return drive
}

async function untilRefused(mounted: MountedDrive, name: string): Promise<void> {
  await expect
    .poll(() => mounted.sh(`getfattr --only-values -n user.bagfs.state ${name}`))
    .toContain('waits for you')
}

describe.runIf(canMount())('a failure that close could not report', () => {
  it('is told once on the desktop, in plain words', async () => {
    const { dir, calls } = makeNotifySend()
    const mounted = await mountAtDesktop(`${dir}${delimiter}${process.env['PATH'] ?? ''}`)
    bench.service.proxy.add({ match: { method: 'POST' }, fault: { answer: REFUSED } })
    await mounted.sh('echo content > report.txt')
    await untilRefused(mounted, 'report.txt')
    await expect.poll(calls).toHaveLength(5)
    const [called, app, separator, title, body] = calls()
    expect([called, app, separator]).toEqual(['called', '--app-name=bagfs', '--'])
    expect(title).toBe('Not stored: report.txt')
    expect(body).toMatch(
      /^failed: Uploading "report\.txt" failed: .*No &lt;such&gt; names &amp; so on .*\(waits for you\)$/,
    )
    // What changes beside it sends no other message.
    bench.service.proxy.clear()
    await mounted.sh('echo other > other.txt')
    await expect.poll(() => bench.service.uploads()).toEqual(['other.txt'])
    expect(calls()).toHaveLength(5)
  })

  it('does no harm where there is no notify-send', async () => {
    const nothing = join(bench.dir, 'empty')
    mkdirSync(nothing)
    const mounted = await mountAtDesktop(`${nothing}${delimiter}/usr/bin${delimiter}/bin`)
    bench.service.proxy.add({ match: { method: 'POST' }, times: 1, fault: { answer: REFUSED } })
    await mounted.sh('echo content > report.txt')
    await untilRefused(mounted, 'report.txt')
    await expect.poll(() => mounted.log).toContain('No notification could be shown.')
    await mounted.sh('echo second > second.txt')
    await expect.poll(() => bench.service.uploads()).toEqual(['second.txt'])
    expect(await mounted.sh('cat report.txt')).toBe('content\n')
  })
})
