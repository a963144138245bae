import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { driveStatus, type DriveStatus } from '../../src/control/protocol.ts'
import { canMount } from '../support/fuse.ts'
import { Bench, type MountedDrive, type Outcome } from '../support/mounted-drive.ts'
import { OpenFile } from '../support/open-file.ts'
import { unpackFolder } from '../support/unpacked.ts'

const UPLOAD = { method: 'POST', path: /upload$/ }
const REFUSED = {
  answer: {
    status: 422,
    headers: { 'content-type': 'application/json' },
    body: '{"detail": [{"loc": ["body", "file"], "msg": "No such files here.", "type": "x"}]}',
  },
}
const UNAVAILABLE = { answer: { status: 503, body: 'later' } }

describe.runIf(canMount())('the status of a mounted drive', () => {
  let bench: Bench
  beforeEach(async () => {
    bench = await Bench.start()
  })
  afterEach(async () => {
    await bench.close()
  })

  const mount = (...args: readonly string[]): Promise<MountedDrive> => bench.mount(...args)
  const bagfs = (...args: readonly string[]): Promise<Outcome> => bench.bagfs(args)
  /** A shell does not tell of a failed close; cp does. */
  const copyFails = (drive: MountedDrive, name: string, content: string) => {
    writeFileSync(join(bench.dir, name), content)
    return drive.fails(`cp ${bench.dir}/${name} ${name}`)
  }
  const jsonOf = async (drive: MountedDrive): Promise<DriveStatus> =>
    driveStatus.parse(JSON.parse(await drive.sh('cat .bagfs/status.json')))

  it('is hidden from listings, whole, and the same in the drive and on the command line', async () => {
    await bench.service.upload('a.txt', 'a\n')
    const drive = await mount()
    expect(await drive.sh('ls -A')).toBe('a.txt\n')
    expect(await drive.sh('ls -A .bagfs')).toBe('outbox\nstatus\nstatus.json\ntrash\n')
    const text = await drive.sh('cat .bagfs/status')
    expect(text).toContain(`Drive:    ${bench.mountpoint} (closing a file waits for the service)\n`)
    expect(text).toMatch(/^Listing: {2}1 bag, \d+ s old$/m)
    expect(text).toContain('Outbox:   empty: everything is stored.\n')
    expect(await drive.sh('stat -c %s .bagfs/status; cat .bagfs/status | wc -c')).toMatch(
      /^(\d+)\n\1\n$/,
    )
    const { code, stdout } = await bagfs('status', bench.mountpoint)
    expect(code).toBe(0)
    const steady = (status: string): string => status.replace(/\d+ s old/, '? s old')
    expect(steady(`${stdout}\n`)).toBe(steady(text))
    const byCommand = await bagfs('status', bench.mountpoint, '--json')
    const status = driveStatus.parse(JSON.parse(byCommand.stdout))
    expect(status).toMatchObject({ mode: 'through', outbox: [], listing: { records: 1 } })
    // The listing is asked for again meanwhile, which tells of the pace, too.
    const time: unknown = expect.any(Number)
    expect(await jsonOf(drive)).toMatchObject({
      ...status,
      listing: { records: 1 },
      pace: { serviceMs: time, driveMs: time },
      traffic: { sentBytes: 0 },
    })
  })

  it('cannot be changed from within', async () => {
    const drive = await mount()
    for (const command of [
      'echo x > .bagfs/status',
      'rm .bagfs/status',
      'touch .bagfs/new',
      'mkdir .bagfs/new',
      'mv .bagfs/status .bagfs/elsewhere',
      'echo x > .bagfs',
    ]) {
      expect((await drive.fails(command)).code).not.toBe(0)
    }
    expect(await drive.sh('cat .bagfs/status | wc -l')).toMatch(/^\d+\n$/)
    expect(bench.service.uploads()).toEqual([])
  })

  it('tells how far an upload is that stands still, and gives its content', async () => {
    const drive = await mount('--write-back', '--timeout', '60s')
    bench.service.proxy.add({ match: UPLOAD, fault: { silence: true } })
    const content = randomBytes(3_000_000)
    writeFileSync(join(bench.dir, 'big'), content)
    await drive.sh(`cp ${bench.dir}/big big.bin`)
    await expect
      .poll(async () => (await jsonOf(drive)).outbox[0]?.state)
      .toMatch(/^uploading \d+ %$/)
    const status = await jsonOf(drive)
    expect(status.uploads).toMatchObject([{ name: 'big.bin', totalBytes: 3_000_000 }])
    expect(await drive.sh('cat .bagfs/status')).toMatch(
      /^ {2}big\.bin {2}3\.0 MB {2}uploading \d+ %$/m,
    )
    expect(await drive.sh('getfattr --only-values -n user.bagfs.state big.bin')).toMatch(
      /^uploading \d+ %$/,
    )
    const copy = join(bench.dir, 'copy')
    await drive.sh(`cp .bagfs/outbox/big.bin ${copy}`)
    expect(readFileSync(copy).equals(content)).toBe(true)
    expect((await bagfs('status')).code).toBe(0)
    const busy = await bagfs('outbox', 'discard', 'big.bin', '--yes')
    expect(busy.code).toBe(7)
    expect(busy.stderr).toContain('big.bin is being sent right now.')
  })

  it('shows with --watch how fast content comes, anew each second until Ctrl-C', async () => {
    await bench.service.upload('big.bin', randomBytes(12_000_000))
    const drive = await mount('--timeout', '60s')
    const match = { path: /download/ }
    bench.service.proxy.add({ match, fault: { bytesPerSecond: 500_000 } })
    const reading = drive.sh('cat big.bin | wc -c')
    const watching = bench.start(['status', '--watch', bench.mountpoint])
    const shown: string[] = []
    watching.stdout?.on('data', (chunk: Buffer) => shown.push(chunk.toString()))
    const line = /^Download: big\.bin, [\d.]+ [kM]?B of 12 MB, [\d.]+ [kM]B\/s, \d+ s left$/m
    await expect.poll(() => shown.join('')).toMatch(line)
    const all = shown.join('')
    expect(all.match(/^Drive: /gm)?.length).toBeGreaterThan(1)
    expect(all).toMatch(/^Account: {2}\[#-+\] \d+ % used: /m)
    expect((await bagfs('status', bench.mountpoint)).stdout).toMatch(line)
    const ended = once(watching, 'exit')
    watching.kill('SIGINT')
    expect((await ended)[0]).toBe(0)
    bench.service.proxy.clear()
    expect(await reading).toBe('12000000\n')
  })

  it('tells of a refused upload in the same words everywhere, and what can be done', async () => {
    const drive = await mount()
    const clear = bench.service.proxy.add({ match: UPLOAD, fault: REFUSED })
    expect((await copyFails(drive, 'a.txt', 'precious\n')).stderr).toContain('Input/output error')
    // Once, although the kernel flushes and then releases the file.
    expect(bench.service.proxy.requests.filter(({ path }) => UPLOAD.path.test(path))).toHaveLength(
      1,
    )
    const words = await drive.sh('getfattr --only-values -n user.bagfs.state a.txt')
    expect(words).toMatch(/^failed: .*No such files here.* \(waits for you\)$/)
    expect(await drive.sh('cat .bagfs/status')).toContain(words)
    expect((await jsonOf(drive)).outbox).toMatchObject([
      { name: 'a.txt', bytes: 9, state: words, failure: { code: 'rejected', waitsForUser: true } },
    ])
    await expect.poll(() => drive.log).toContain(words)
    const status = await bagfs('status', bench.mountpoint)
    expect(status).toMatchObject({ code: 1 })
    expect(status.stdout).toContain('1 failed and waits for you (bagfs outbox)')
    const list = await bagfs('outbox', '--mountpoint', bench.mountpoint)
    expect(list.stdout).toContain(`a.txt  9 B  ${words}`)
    expect(await drive.sh('cat .bagfs/outbox/a.txt')).toBe('precious\n')
    const synced = await bagfs('sync', join(bench.mountpoint, 'a.txt'))
    expect(synced).toMatchObject({ code: 1 })
    expect(synced.stderr).toContain('No such files here (status 422)')
    clear()
    await bagfs('outbox', 'retry', 'a.txt', '--mountpoint', bench.mountpoint)
    await expect.poll(() => bench.service.contents()).toEqual({ 'a.txt': 'precious\n' })
    await expect.poll(async () => (await bagfs('status')).code).toBe(0)
    expect(await drive.sh('ls .bagfs/outbox')).toBe('')
  })

  it('saves and discards what failed, and only when asked twice', async () => {
    const drive = await mount()
    bench.service.proxy.add({ match: UPLOAD, fault: REFUSED })
    await copyFails(drive, 'a.txt', 'one\n')
    await copyFails(drive, 'b.txt', 'two\n')
    const out = join(bench.dir, 'out')
    mkdirSync(out)
    expect(await bagfs('outbox', 'save', '--to', out)).toMatchObject({ code: 0 })
    expect(readFileSync(join(out, 'a.txt'), 'utf8')).toBe('one\n')
    expect(readFileSync(join(out, 'b.txt'), 'utf8')).toBe('two\n')
    const again = await bagfs('outbox', 'save', 'a.txt', '--to', out)
    expect(again).toMatchObject({ code: 1 })
    expect(again.stderr).toContain('exists already')
    expect((await bagfs('outbox', 'discard', '--yes')).code).toBe(2)
    expect((await bagfs('outbox', 'discard', 'a.txt')).code).toBe(2)
    expect((await bagfs('outbox', 'discard', 'nothing', '--yes')).code).toBe(4)
    expect(await drive.sh('ls')).toBe('a.txt\nb.txt\n')
    expect((await bagfs('outbox', 'discard', 'a.txt', '--yes')).code).toBe(0)
    expect(await drive.sh('sleep 1.1; ls; ls .bagfs/outbox')).toBe('b.txt\nb.txt\n')
  })

  it('says of an empty folder that there is nothing to save or to try again', async () => {
    const drive = await mount()
    await drive.sh('mkdir empty')
    await bagfs('sync', bench.mountpoint)
    for (const verb of ['save', 'retry']) {
      const told = await bagfs('outbox', verb, 'empty')
      expect(told.stderr).toBe(`There is nothing to ${verb} of empty: local only.`)
      expect((await bagfs('outbox', verb)).stderr).toBe(told.stderr)
    }
  })

  it('tells of many changes that cannot be sent in a few lines, and what comes next', async () => {
    const drive = await mount('--write-back')
    const heal = bench.service.proxy.add({ match: UPLOAD, fault: UNAVAILABLE })
    await drive.sh('for i in $(seq 10 21); do echo $i > $i; done')
    const failed = await bagfs('sync', bench.mountpoint)
    const lines = failed.stderr.split('\n')
    expect(lines).toHaveLength(12)
    expect(lines[10]).toBe(`bagfs: and 2 more: bagfs outbox ${bench.mountpoint} lists all.`)
    expect(lines[11]).toContain('tried again by itself')
    heal()
    expect(await bagfs('sync', bench.mountpoint)).toMatchObject({ code: 0, stderr: '' })
  })

  it('gives the old version back when a failed overwrite is discarded', async () => {
    await bench.service.upload('a.txt', 'old\n')
    const drive = await mount()
    bench.service.proxy.add({ match: UPLOAD, fault: REFUSED })
    await copyFails(drive, 'a.txt', 'new content\n')
    expect(await drive.sh('cat a.txt')).toBe('new content\n')
    await bagfs('outbox', 'discard', 'a.txt', '--yes')
    expect(await drive.sh('sleep 1.1; cat a.txt')).toBe('old\n')
  })

  it.each(['a running drive', 'no drive'])(
    'brings nothing back that a discarded change had taken the place of, with %s',
    async (how) => {
      const drive = await mount('--write-back', '--listing-lag', '1s')
      const { proxy } = bench.service
      // The first content may have arrived, for all we know; it has not.
      proxy.add({ match: UPLOAD, fault: { answer: { status: 500 } } })
      proxy.add({ match: { path: /files_list/ }, fault: UNAVAILABLE })
      await drive.sh('echo first > a.txt')
      await expect
        .poll(() => drive.sh('getfattr --only-values -n user.bagfs.state a.txt'))
        .toContain('failed')
      await drive.sh('echo second > a.txt')
      const isRunning = how === 'a running drive'
      if (!isRunning) {
        await bagfs('umount', '--now', bench.mountpoint)
        await drive.ended()
      }
      const where = isRunning ? [] : ['--state-dir', bench.stateDir]
      await expect
        .poll(async () => (await bagfs('outbox', 'discard', 'a.txt', '--yes', ...where)).code)
        .toBe(0)
      proxy.clear()
      const next = isRunning ? drive : await mount()
      expect(await next.sh('ls; ls .bagfs/outbox')).toBe('')
      await next.leave()
      expect(await bench.service.list()).toEqual([])
    },
  )

  it('handles the outbox with no drive mounted, under the lock', async () => {
    const drive = await mount('--write-back')
    bench.service.proxy.add({ match: UPLOAD, fault: UNAVAILABLE })
    await drive.sh('echo one > a.txt; echo two > b.txt')
    await bagfs('umount', '--now', bench.mountpoint)
    await drive.ended()
    const list = await bagfs('outbox', '--state-dir', bench.stateDir)
    expect(list.code).toBe(0)
    expect(list.stdout).toMatch(/\(not mounted\):$/m)
    expect(list.stdout).toMatch(/^ {2}\d{17} {2}a\.txt {2}4 B {2}(waiting|failed: )/m)
    const out = join(bench.dir, 'out')
    mkdirSync(out)
    await bagfs('outbox', 'save', '--to', out, '--state-dir', bench.stateDir)
    expect(readdirSync(out).sort()).toEqual(['a.txt', 'b.txt'])
    expect(readFileSync(join(out, 'b.txt'), 'utf8')).toBe('two\n')
    const args = ['--state-dir', bench.stateDir] as const
    expect(await bagfs('outbox', 'discard', 'a.txt', '--yes', ...args)).toMatchObject({ code: 0 })
    expect(await bagfs('outbox', 'retry', ...args)).toMatchObject({ code: 0 })
    bench.service.proxy.clear()
    const next = await mount()
    // It is not known whether the earlier upload arrived: the listing is given its time to show it.
    await expect.poll(() => bench.service.contents()).toEqual({ 'b.txt': 'two\n' })
    expect(await next.sh('ls')).toBe('b.txt\n')
  })

  it.each(['a running drive', 'no drive'])(
    'saves all that can be saved beside a folder that is not packed yet, with %s',
    async (how) => {
      const drive = await mount('--write-back', '--folder-settle', '60s')
      bench.service.proxy.add({ match: UPLOAD, fault: REFUSED })
      await drive.sh('mkdir afolder; echo in > afolder/x; echo one > b.txt; echo two > c.txt')
      const isRunning = how === 'a running drive'
      if (!isRunning) {
        const { stderr } = await bagfs('umount', '--now', bench.mountpoint)
        expect(stderr).toContain('3 changes are not at the service yet')
        await drive.ended()
      }
      const out = join(bench.dir, 'out')
      mkdirSync(out)
      const where = isRunning ? [] : ['--state-dir', bench.stateDir]
      const saved = await bagfs('outbox', 'save', '--to', out, ...where)
      expect(readdirSync(out).sort()).toEqual(['b.txt', 'c.txt'])
      expect(saved.code).toBe(4)
      expect(saved.stderr).toContain('not saved: afolder: ')
      expect(saved.stderr).not.toContain('ENOENT')
    },
  )

  it('saves folders that the service refused as zips', async () => {
    const drive = await mount('--folder-settle', '50ms')
    bench.service.proxy.add({ match: UPLOAD, fault: REFUSED })
    await drive.sh('mkdir F G.zip; echo in | tee F/x G.zip/x')
    const out = join(bench.dir, 'out')
    mkdirSync(out)
    for (const name of ['F', 'G.zip']) {
      await expect
        .poll(() => drive.sh(`getfattr --only-values -n user.bagfs.state ${name}`))
        .toContain('waits for you')
    }
    expect((await bagfs('outbox', 'save', '--to', out)).code).toBe(0)
    expect(readdirSync(out).sort()).toEqual(['F.zip', 'G.zip'])
  })

  it('leaves no half of what was being saved when that is interrupted', async () => {
    const drive = await mount('--write-back')
    bench.service.proxy.add({ match: UPLOAD, fault: REFUSED })
    await drive.sh('truncate -s 900M huge')
    const out = join(bench.dir, 'out')
    mkdirSync(out)
    const saving = bench.start(['outbox', 'save', 'huge', '--to', out])
    await expect.poll(() => readdirSync(out, { recursive: true }).length).toBe(2)
    expect(readdirSync(out)).not.toContain('huge')
    saving.kill('SIGINT')
    expect(await once(saving, 'close')).toEqual([130, null])
    expect(readdirSync(out)).toEqual([])
  })

  it('tells what holds room of the account while it is written, deleted files too', async () => {
    const drive = await mount()
    const text = await drive.sh(
      'exec 3>kept 4>gone; head -c 2M /dev/zero >&3; rm gone; head -c 1M /dev/zero >&4; cat .bagfs/status',
    )
    expect(text).toMatch(/^Written: {2}kept holds 2\.\d MB of the account until/m)
    expect(text).toMatch(/^Written: {2}a file that was deleted while it is open holds 1\.\d MB/m)
    await expect.poll(() => drive.sh('cat .bagfs/status')).not.toContain('Written:')
  })

  it('shows how old the listing is when the service is gone', async () => {
    await bench.service.upload('a.txt', 'a\n')
    const drive = await mount('--listing-ttl', '100ms')
    await bench.service.proxy.down()
    await drive.sh('sleep 0.3; ls')
    await expect
      .poll(() => drive.sh('ls >/dev/null; cat .bagfs/status'))
      .toMatch(/^Listing: {2}1 bag, \d+ s old; not to be had for now: .*\(\d+ s ago\)$/m)
    expect((await jsonOf(drive)).listing.lastError).toMatchObject({ code: 'unavailable' })
    expect((await bagfs('status', bench.mountpoint)).stdout).toContain('not to be had for now')
  })

  it('waits in sync until the service has what was written in mode back', async () => {
    const drive = await mount('--write-back')
    const clear = bench.service.proxy.add({ match: UPLOAD, fault: UNAVAILABLE })
    await drive.sh('echo one > a.txt; echo two > b.txt')
    clear()
    expect(await bagfs('sync', join(bench.mountpoint, 'a.txt'))).toMatchObject({ code: 0 })
    expect((await bench.service.contents())['a.txt']).toBe('one\n')
    expect(await bagfs('sync', bench.mountpoint)).toMatchObject({ code: 0 })
    expect(await bench.service.contents()).toEqual({ 'a.txt': 'one\n', 'b.txt': 'two\n' })
    expect(await bagfs('sync')).toMatchObject({ code: 0 })
    expect(await bagfs('sync', bench.dir)).toMatchObject({ code: 2 })
  })

  it('tells of a drive that was killed, what waits in it and what to do, until it is mounted again', async () => {
    const drive = await mount('--write-back')
    const heal = bench.service.proxy.add({ match: UPLOAD, fault: UNAVAILABLE })
    await drive.sh('echo one > a.txt; echo two > b.txt')
    drive.signal('SIGKILL')
    await drive.ended()
    const told = await bagfs('status')
    expect(told).toMatchObject({ code: 1, stderr: '' })
    expect(told.stdout).toContain(
      `Drive:    ${bench.mountpoint} (its process ended without leaving)`,
    )
    expect(told.stdout).toContain('Outbox:   2 changes wait (8 B)')
    expect(told.stdout).toMatch(/^ {2}a\.txt {2}4 B {2}/m)
    expect(told.stdout).toContain(`To do:    bagfs mount ${bench.mountpoint} `)
    expect(await bagfs('status', bench.mountpoint)).toEqual(told)
    const asJson = await bagfs('status', '--json')
    expect(asJson).toEqual({ code: 1, stdout: '[]', stderr: told.stdout })
    expect(await bagfs('sync')).toEqual({ code: 1, stdout: '', stderr: told.stdout })
    await drive.kill()
    const taken = await bagfs('status')
    expect(taken.code).toBe(1)
    expect(taken.stdout).toContain(`To do:    bagfs mount ${bench.mountpoint} `)
    await bench.mountElsewhere()
    const { stdout } = await bagfs('status')
    expect(stdout.match(/^Drive: +\S+/gm)).toEqual([`Drive:    ${bench.dir}/elsewhere`])
    expect(await bagfs('umount', bench.mountpoint)).toMatchObject({ code: 2 })
    heal()
    expect(await bagfs('sync')).toMatchObject({ code: 0 })
  })

  it('tells of a drive that is stopped and what to do, beside those that answer', async () => {
    const drive = await mount()
    const other = await bench.mountOther()
    drive.signal('SIGSTOP')
    try {
      const told = await bagfs('status')
      const pid = drive.process.pid ?? 0
      expect(told).toMatchObject({ code: 1, stderr: '' })
      expect(told.stdout).toContain(`Drive:    ${other.path} (`)
      expect(told.stdout).toContain(
        `Drive:    ${bench.mountpoint} (its process ${pid} is stopped)\nTo do:    kill -CONT ${pid} lets it go on; bagfs umount --now ${bench.mountpoint} takes it away`,
      )
      expect((await bagfs('status', bench.mountpoint)).code).toBe(1)
      const json = await bagfs('status', '--json')
      expect(JSON.parse(json.stdout)).toMatchObject([{ mountpoint: other.path }])
      expect(json.stderr).toContain(`its process ${pid} is stopped`)
      const asked = await bagfs('explain', `${bench.mountpoint}/a.txt`)
      expect(asked).toMatchObject({ code: 5, stdout: '' })
      expect(asked.stderr).toContain(`The drive at ${bench.mountpoint} hangs: its process`)
    } finally {
      drive.signal('SIGCONT')
    }
  })

  it('tells of a drive that was killed also when nothing waits in it, as long as it has a mount', async () => {
    const drive = await mount()
    drive.signal('SIGKILL')
    await drive.ended()
    const told = await bagfs('status')
    expect(told.code).toBe(1)
    expect(told.stdout).toContain('Outbox:   empty: everything is stored.')
    expect(await bagfs('sync')).toMatchObject({ code: 0 })
    await drive.kill()
    expect(await bagfs('status')).toEqual({ code: 0, stdout: '', stderr: 'No drive is mounted.' })
  })

  it('finds by the mountpoint what a drive left, also in a state directory that only a flag named', async () => {
    const drive = await mount('--write-back')
    await drive.sh('echo old > old.txt')
    expect(await bagfs('sync')).toMatchObject({ code: 0 })
    await drive.sh('rm old.txt')
    expect(await bagfs('sync')).toMatchObject({ code: 0 })
    const heal = bench.service.proxy.add({ match: UPLOAD, fault: UNAVAILABLE })
    await drive.sh('echo one > a.txt')
    await bagfs('umount', '--now', bench.mountpoint)
    await drive.ended()
    const told = await bagfs('status', bench.mountpoint)
    expect(told.stdout).toContain(`Drive:    ${bench.mountpoint} (not mounted)`)
    expect(told.stdout).toContain('Outbox:   1 change waits (4 B)')
    expect(told.stdout).toMatch(
      new RegExp(`^To do: {4}bagfs mount ${bench.mountpoint} .*--state-dir=${bench.stateDir}`, 'm'),
    )
    expect(told.code).toBe(1)
    for (const words of [['list', bench.mountpoint], [bench.mountpoint], [], ['list', 'a.txt']]) {
      expect((await bagfs('outbox', ...words)).stdout, words.join(' ')).toContain('a.txt  4 B')
    }
    for (const words of [['list', bench.mountpoint], [bench.mountpoint], []]) {
      expect((await bagfs('trash', ...words)).stdout, words.join(' ')).toContain('old.txt  4 B')
    }
    expect((await bagfs('cache', 'stats', bench.mountpoint)).stdout).toContain(bench.stateDir)
    const twice = await bagfs('outbox', bench.mountpoint, '--state-dir', bench.stateDir)
    expect(twice).toMatchObject({ code: 2 })
    const other = await bench.mountBy('--state-dir', join(bench.dir, 'new-state'))
    expect(other.stderr).toContain(`1 change waits in ${bench.stateDir}/`)
    expect(other.stderr).toContain(`a mount with --state-dir ${bench.stateDir} sends it`)
    expect(await bagfs('umount', bench.mountpoint)).toMatchObject({ code: 0 })
    expect((await bagfs('outbox', bench.mountpoint)).code).toBe(0)
    expect((await bagfs('outbox')).stdout).toContain('a.txt  4 B')
    heal()
    const again = await bench.mountBy()
    expect(again.stderr).not.toContain('waits in')
    expect(await bagfs('umount', bench.mountpoint)).toMatchObject({ code: 0 })
    expect(await bench.service.contents()).toEqual({ 'a.txt': 'one\n' })
    expect((await bagfs('status', bench.mountpoint)).stderr).toContain('No running bagfs drive')
  })

  it('says in sync that there is no such file, and takes one whose delete waits', async () => {
    const drive = await mount('--write-back')
    await drive.sh('echo one > a.txt; mkdir docs; echo one > docs/b.txt')
    expect(await bagfs('sync')).toMatchObject({ code: 0 })
    for (const name of ['nosuch', 'docs/nosuch', 'nosuch/a.txt', 'a.txt/x', 'a.txt/x/y']) {
      const path = join(bench.mountpoint, name)
      const missing = await bagfs('sync', path)
      expect(missing).toMatchObject({ code: 4, stderr: `bagfs: ${path} does not exist.` })
    }
    const heal = bench.service.proxy.add({ match: { method: 'DELETE' }, fault: UNAVAILABLE })
    await drive.sh('rm a.txt')
    const failing = await bagfs('sync', join(bench.mountpoint, 'a.txt'))
    expect(failing.stderr).toMatch(/^bagfs: a\.txt: failed: Deleting bag/)
    expect(failing.code).toBe(1)
    heal()
    expect(await bagfs('sync')).toMatchObject({ code: 0 })
    expect((await bench.service.list()).map(({ filename }) => filename)).toEqual(['docs'])
  })

  it('fails in sync, with the reason, while an old bag cannot be deleted', async () => {
    const drive = await mount()
    await drive.sh('echo one > a.txt')
    const refused = { answer: { status: 422, body: '{"detail":"not today"}' } }
    const heal = bench.service.proxy.add({ match: { method: 'DELETE' }, fault: refused })
    await drive.sh('echo two > a.txt')
    const failed = await bagfs('sync', bench.mountpoint)
    expect(failed).toMatchObject({ code: 1 })
    expect(failed.stderr).toMatch(/a\.txt: .*not today/)
    heal()
    expect(await bagfs('sync', bench.mountpoint)).toMatchObject({ code: 0 })
    expect(await bench.service.contents()).toEqual({ 'a.txt': 'two\n' })
  })

  it('sends held steps of a save when sync asks for them', async () => {
    const drive = await mount()
    await drive.sh('echo one > report.tmp')
    expect(await bench.service.contents()).toEqual({})
    expect((await jsonOf(drive)).outbox).toMatchObject([{ state: 'held: a step of a save' }])
    expect(await bagfs('sync', join(bench.mountpoint, 'report.tmp'))).toMatchObject({ code: 0 })
    expect(await bench.service.contents()).toEqual({ 'report.tmp': 'one\n' })
  })

  it('sends a folder when sync asks for something in it', async () => {
    const drive = await mount('--folder-settle', '10m')
    await drive.sh('mkdir docs; echo one > docs/a.txt')
    expect(await bench.service.list()).toEqual([])
    expect(await drive.sh('cat .bagfs/status')).toContain('waits for the folder to rest')
    expect(await bagfs('sync', join(bench.mountpoint, 'docs', 'a.txt'))).toMatchObject({ code: 0 })
    expect((await bench.service.list()).map(({ filename }) => filename)).toEqual(['docs'])
    expect((await jsonOf(drive)).outbox).toEqual([])
  })

  it('sends in sync what came into a folder after its zip was on its way', async () => {
    const drive = await mount('--folder-settle', '1h')
    const uploads = (): number =>
      bench.service.proxy.requests.filter(({ method }) => method === 'POST').length
    bench.service.proxy.add({ match: { method: 'POST' }, times: 1, fault: { latencyMs: 1_000 } })
    await drive.sh('mkdir docs; echo one > docs/a.txt')
    const first = bagfs('sync')
    await expect.poll(uploads).toBe(1)
    expect(await drive.sh('echo two > docs/b.txt; cat docs/a.txt')).toBe('one\n')
    expect(bench.service.uploads()).toEqual([])
    expect(await bagfs('sync', join(bench.mountpoint, 'docs'))).toMatchObject({ code: 0 })
    expect(bench.service.uploads()).toHaveLength(2)
    expect(await first).toMatchObject({ code: 0 })
    const target = join(bench.dir, 'unpacked')
    await unpackFolder(bench.service, 'docs', target)
    expect(await drive.sh(`cat ${target}/*`)).toBe('one\ntwo\n')
    expect((await jsonOf(drive)).outbox).toEqual([])
  })

  it.each(['file', 'docs/file'])('tells in sync of %s while a program writes it', async (path) => {
    const drive = await mount()
    await drive.sh(`mkdir docs; echo stored > ${path}`)
    expect(await bagfs('sync')).toMatchObject({ code: 0 })
    const stored = async (): Promise<string> => {
      if (path === 'file') return (await bench.service.contentOf('file')).toString()
      const target = join(bench.dir, 'unpacked')
      await unpackFolder(bench.service, 'docs', target)
      return readFileSync(join(target, 'file'), 'utf8')
    }
    const file = await OpenFile.open(join(bench.mountpoint, path), 'os.O_WRONLY | os.O_TRUNC')
    try {
      expect(await file.write('half')).toBe('ok 4')
      const { code, stderr } = await bagfs('sync')
      expect(code).toBe(0)
      expect(stderr).toContain(`${path}: a program`)
      expect(await stored()).toBe('stored\n')
      expect(await file.close()).toBe('ok None')
      expect(await bagfs('sync')).toMatchObject({ code: 0, stderr: '' })
      expect(await stored()).toBe('half')
    } finally {
      file.end()
    }
  })

  it('reads a bag that is not in the listing by its id', async () => {
    const bagId = await bench.service.upload('hidden.txt', 'hidden')
    bench.service.proxy.add({
      match: { method: 'GET', path: /files_list/ },
      fault: {
        answer: { status: 200, body: '[]', headers: { 'content-type': 'application/json' } },
      },
    })
    const drive = await mount()
    expect(await drive.sh(`ls; stat -c %s .bags/${bagId}; cat .bags/${bagId}`)).toBe('6\nhidden')
  })

  it('reads any bag of the account by its id, and hides the directory', async () => {
    const content = randomBytes(2_000_000)
    const bagId = await bench.service.upload('big.bin', content)
    const drive = await mount()
    expect(await drive.sh('ls -A; ls -A .bags')).toBe('big.bin\n')
    expect(await drive.sh(`stat -c %s .bags/${bagId}`)).toBe('2000000\n')
    const copy = join(bench.dir, 'copy')
    await drive.sh(`cp .bags/${bagId} ${copy}`)
    expect(readFileSync(copy).equals(content)).toBe(true)
    const nowhere = 'f'.repeat(64)
    expect((await drive.fails(`cat .bags/${nowhere}`)).stderr).toContain('No such file')
    expect((await drive.fails('cat .bags/nonsense')).stderr).toContain('No such file')
    expect((await drive.fails(`mkdir .bags/${nowhere}`)).stderr).toContain('No such file')
    expect((await drive.fails('mkdir .bags/nonsense')).stderr).toContain('Invalid argument')
    expect((await drive.fails(`echo x > .bags/${bagId}`)).stderr).toContain('not permitted')
    expect((await drive.fails(`rm -f .bags/${bagId}`)).stderr).toContain('not permitted')
  })

  it.each(['mkdir', 'touch'])('imports a bag of the network by %s', async (program) => {
    const bagId = await bench.service.uploadElsewhere('shared.txt', 'from a friend\n')
    const drive = await mount('--listing-ttl', '10m')
    expect(await drive.sh('ls')).toBe('')
    await drive.sh(`${program} .bags/${bagId}`)
    expect(await drive.sh('ls; cat shared.txt')).toBe('shared.txt\nfrom a friend\n')
    await expect.poll(() => drive.sh(`cat .bags/${bagId}`).catch(() => '')).toBe('from a friend\n')
  })

  it('checks, tells and empties the cache, mounted or not', async () => {
    const drive = await mount()
    await drive.sh('echo hello > good.txt; echo damaged > bad.txt')
    const bagId = (await drive.sh('getfattr --only-values -n user.bagfs.bag_id bad.txt')).trim()
    expect((await bagfs('cache', 'stats')).stdout).toMatch(/: \d+ B of 10 GB, 2 bags$/)
    expect(await bagfs('cache', 'verify', bench.mountpoint)).toMatchObject({ code: 0 })
    const both = ['--state-dir', bench.stateDir, bench.mountpoint]
    expect(await bagfs('cache', 'stats', ...both)).toMatchObject({ code: 2 })
    const file = findFile(bench.stateDir, bagId)
    writeFileSync(file, 'DAMAGED\n')
    const mounted = await bagfs('cache', 'verify')
    expect(mounted).toMatchObject({ code: 1 })
    expect(mounted.stdout).toContain('1 good, 1 bad')
    expect(existsSync(file)).toBe(false)
    expect(await drive.sh('sleep 1.1; cat bad.txt')).toBe('damaged\n')
    await drive.leave()
    writeFileSync(findFile(bench.stateDir, bagId), 'DAMAGED\n')
    const idle = await bagfs('cache', 'verify', '--state-dir', bench.stateDir)
    expect(idle).toMatchObject({ code: 1 })
    expect(idle.stdout).toContain(bagId)
    expect((await bagfs('cache', 'clear', '--state-dir', bench.stateDir)).stdout).toContain(
      'emptied',
    )
    const stats = await bagfs('cache', 'stats', '--json', '--state-dir', bench.stateDir)
    expect(JSON.parse(stats.stdout)).toMatchObject([{ bytes: 0, bags: 0 }])
  })
})

function findFile(dir: string, name: string): string {
  for (const entry of readdirSync(dir, { withFileTypes: true, recursive: true })) {
    if (entry.name === name) return join(entry.parentPath, name)
  }
  throw new Error(`${name} is nowhere in ${dir}.`)
}
