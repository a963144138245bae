import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { driveStatus } from '../../src/control/protocol.ts'
import { canMount } from '../support/fuse.ts'
import { Bench, type MountedDrive } from '../support/mounted-drive.ts'
import { OpenFile } from '../support/open-file.ts'

const LINES = 30

let bench: Bench
beforeEach(async () => {
  bench = await Bench.start()
})
afterEach(async () => {
  await bench.close()
})

describe.runIf(canMount())('one file of the root that two programs append to', () => {
  it.each([[[]], [['--write-back']]])(
    'with an open for each line has every line (%j)',
    async (args) => {
      const drive = await bench.mount(...args)
      const append = `for i in $(seq ${LINES}); do echo $w$i >>log || echo failed; done`
      const said = await drive.sh(`for w in A B; do (${append})& done; wait`)
      expect(said).toBe('')
      expect((await bench.bagfs(['sync', drive.path])).code).toBe(0)
      const stored = (await bench.service.contentOf('log')).toString().trim().split('\n')
      for (const program of ['A', 'B']) {
        const own = stored.filter((line) => line.startsWith(program))
        expect(own).toEqual(Array.from({ length: LINES }, (_, i) => `${program}${i + 1}`))
      }
      expect(await drive.sh('cat log')).toBe(`${stored.join('\n')}\n`)
    },
  )
})

describe.runIf(canMount())('a file of the root that three programs append to', () => {
  const files: OpenFile[] = []
  afterEach(() => {
    for (const file of files.splice(0)) file.end()
  })

  async function append(drive: MountedDrive, text: string): Promise<OpenFile> {
    const file = await OpenFile.open(`${drive.path}/log`, 'os.O_WRONLY | os.O_APPEND | os.O_CREAT')
    files.push(file)
    expect(await file.write(text)).toBe(`ok ${text.length}`)
    return file
  }

  async function untilPromised(drive: MountedDrive, bytes: number): Promise<void> {
    const waiting = async (): Promise<readonly unknown[]> =>
      driveStatus.parse(JSON.parse(await drive.sh('cat .bagfs/status.json'))).outbox
    await expect.poll(waiting).toMatchObject([{ name: 'log', bytes }])
  }

  it('is stored when its close says so, also when others have closed it meanwhile', async () => {
    const { proxy } = bench.service
    const match = { method: 'POST', path: /upload$/ }
    let goOn = (): void => undefined
    const gate = new Promise<void>((resolve) => {
      goOn = resolve
    })
    proxy.add({ match, times: 1, fault: { before: () => gate } })
    proxy.add({
      match,
      fault: { answer: { status: 422, body: '{"detail":"refused by the test"}' } },
    })
    const drive = await bench.mount()
    const closed: Promise<string>[] = []
    for (const [index, text] of ['one,', 'two,', 'three,', 'four,'].entries()) {
      closed.push((await append(drive, text)).close())
      await untilPromised(drive, [4, 8, 14, 19][index] ?? 0)
    }
    goOn()
    expect(await Promise.all(closed)).toEqual(['ok None', 'EIO', 'EIO', 'EIO'])
    expect((await bench.service.contentOf('log')).toString()).toBe('one,')
  })
})

describe.runIf(canMount())('a program that begins while another one writes', () => {
  /** Writes, and has a second program begin; the kernel closes the file for that one within exec. */
  const WRITER = `
import subprocess
with open("report", "w") as report:
    report.write("begun, ")
    report.flush()
    subprocess.run(["true"], check=True)
    report.write("done")
`

  it('does not hold up the drive', async () => {
    const drive = await bench.mount()
    await drive.sh(`python3 -c '${WRITER}'`)
    expect((await bench.service.contentOf('report')).toString()).toBe('begun, done')
  })

  it('may take the place of the one that wrote', async () => {
    const drive = await bench.mount()
    const replace = 'import os; f = open("report", "w"); f.write("all"); f.flush()'
    await drive.sh(`python3 -c '${replace}; os.execv("/bin/true", ["true"])'`)
    expect((await bench.service.contentOf('report')).toString()).toBe('all')
  })

  it('may hang on another file system', async () => {
    const other = await Bench.start()
    try {
      const hanging = await other.mount()
      const pid = hanging.process.pid ?? 0
      const drive = await bench.mount()
      const ready = join(bench.dir, 'ready')
      const stop = `f = open("${hanging.path}/x", "w"); f.write("x"); f.flush(); os.kill(${pid}, 19)`
      const hang = `import os; ${stop}; open("${ready}", "w"); os.execv("/bin/true", ["true"])`
      const program = spawn('python3', ['-c', hang], { stdio: 'ignore' })
      try {
        await expect.poll(() => existsSync(ready)).toBe(true)
        await expect.poll(() => isInExec(program.pid ?? 0)).toBe(true)
        await drive.sh('echo all > report')
        expect((await bench.service.contentOf('report')).toString()).toBe('all\n')
      } finally {
        process.kill(pid, 'SIGCONT')
        if (program.exitCode === null) await once(program, 'exit')
      }
    } finally {
      await other.close()
    }
  })
})

/** A program in exec waits for the answer to a FLUSH: it sleeps, and its descriptors are closed one by one. */
function isInExec(pid: number): boolean {
  return !readdirSync(`/proc/${pid}/fd`).includes('3')
}
