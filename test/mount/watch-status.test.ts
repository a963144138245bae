import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { canMount } from '../support/fuse.ts'
import { Bench } from '../support/mounted-drive.ts'
import { placesIn } from '../support/places.ts'
import { PROGRAM } from '../support/service-process.ts'
import { Terminal } from '../support/terminal.ts'

const UPLOAD = { method: 'POST', path: /upload$/ }
const UNAVAILABLE = { answer: { status: 503, body: 'later' } }

describe.runIf(canMount())('the status of a drive at a terminal', () => {
  let bench: Bench
  beforeEach(async () => {
    bench = await Bench.start()
  })
  afterEach(async () => {
    await bench.close()
  })

  it('fits with --watch into the terminal: nothing is wrapped or scrolls away', async () => {
    const drive = await bench.mount('--write-back')
    bench.service.proxy.add({ match: UPLOAD, fault: UNAVAILABLE })
    await drive.sh('for i in $(seq 10 30); do echo $i > $i.txt; done')
    const command = ['status', '--watch', bench.mountpoint].map((word) => `'${word}'`).join(' ')
    const script = `stty cols 40 rows 8; exec '${process.execPath}' '${PROGRAM}' ${command}`
    const terminal = Terminal.start(['sh', '-c', script], {
      cwd: process.cwd(),
      env: { ...process.env, ...placesIn(bench.dir) },
    })
    await terminal.sees('more lines: bagfs status has all')
    await terminal.answer('more lines', '\x03')
    const { exitCode, shown } = await terminal.end()
    expect(exitCode).toBe(0)
    const [, frame = ''] = shown.split('\u001b[H\u001b[J')
    const rows = frame.split('\r\n')
    expect(rows).toHaveLength(8)
    expect(rows[0]).toMatch(/^Drive: {4}.{29}…$/)
    for (const row of rows) expect(row.length).toBeLessThanOrEqual(40)
  })
})
