import { spawnSync } from 'node:child_process'
import { execa } from 'execa'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { driveStatus, type DriveStatus } from '../../src/control/protocol.ts'
import { deferred } from '../../src/domain/deferred.ts'
import { canMount } from '../support/fuse.ts'
import { Bench, type MountedDrive } from '../support/mounted-drive.ts'
import { OpenFile } from '../support/open-file.ts'

/** A listing that is looked at again soon, and one that stays as it is while a test runs. */
const EAGER = ['--listing-ttl', '100ms']
const SLOW = ['--listing-ttl', '10m']

let bench: Bench
let file: OpenFile | undefined
let newVersion: OpenFile | undefined
beforeEach(async () => {
  bench = await Bench.start()
})
afterEach(async () => {
  file?.end()
  newVersion?.end()
  file = newVersion = undefined
  await bench.close()
})

/** Every content that the service has, under whatever name. */
async function stored(): Promise<readonly string[]> {
  const all = await bench.service.list()
  return Promise.all(
    all.map(async ({ bag_id }) => (await bench.service.content(bag_id)).toString()),
  )
}

async function untilShown(drive: MountedDrive, name: string, content: string): Promise<void> {
  await expect.poll(() => drive.sh(`cat ${name}`)).toBe(content)
}

/** Resolves when the drive has had a listing that it asked for after this call. */
async function untilListedAnew(drive: MountedDrive): Promise<void> {
  const { requests } = bench.service.proxy
  const before = requests.length
  const isAnswered = async (): Promise<boolean> => {
    await drive.sh('ls')
    const later = requests.slice(before).filter(({ path }) => path.endsWith('/files_list'))
    // The second is asked for when the first has come.
    return later.length > 1
  }
  await expect.poll(isAnswered).toBe(true)
}

interface TwoMachines {
  readonly a: MountedDrive
  readonly b: MountedDrive
}

/** Two drives of one account: `a` wrote the file `log`, and `b` shows it. */
async function twoWithLog(
  content: string,
  forA: readonly string[] = EAGER,
  forB: readonly string[] = EAGER,
): Promise<TwoMachines> {
  const a = await bench.mount(...forA)
  const b = await bench.mountOther(...forB)
  await a.sh(`printf '%s' '${content}' >log`)
  await untilShown(b, 'log', content)
  return { a, b }
}

/** What the service has, in the order of its content. */
async function sortedStored(): Promise<readonly string[]> {
  return [...(await stored())].sort()
}

async function statusOf(drive: MountedDrive): Promise<DriveStatus> {
  return driveStatus.parse(JSON.parse(await drive.sh('cat .bagfs/status.json')))
}

/** Whether the last try of a change has failed. */
async function hasFailure(drive: MountedDrive): Promise<boolean> {
  const { outbox } = await statusOf(drive)
  return outbox.some(({ failure }) => failure !== undefined)
}

/** Resolves when the drive's listing is older than `ms`. */
async function untilListingIsOlder(drive: MountedDrive, ms: number): Promise<void> {
  await expect.poll(async () => (await statusOf(drive)).listing.ageMs).toBeGreaterThan(ms)
}

describe.runIf(canMount())('a file that two machines write', () => {
  it('has what both appended, also while a listing is older than a second', async () => {
    const { a, b } = await twoWithLog('a1\n', SLOW)
    await a.sh('ls -l; cat log')
    await b.sh('echo B-PRECIOUS >>log')
    await untilListingIsOlder(a, 1_000)
    await a.sh('echo a9 >>log')
    await expect.poll(stored).toEqual(['a1\nB-PRECIOUS\na9\n'])
    expect(await a.sh('cat log')).toBe('a1\nB-PRECIOUS\na9\n')
  })

  it('has what both appended, also when neither found it there', async () => {
    const a = await bench.mount(...SLOW)
    const b = await bench.mountOther(...EAGER)
    await a.sh('ls')
    await b.sh('echo B-PRECIOUS >>log')
    await untilListingIsOlder(a, 1_000)
    await a.sh('echo a9 >>log')
    await expect.poll(stored).toEqual(['B-PRECIOUS\na9\n'])
    expect(await a.sh('cat log')).toBe('B-PRECIOUS\na9\n')
  })

  it.each(['os.O_RDWR', 'os.O_WRONLY | os.O_APPEND'])(
    'and one of them holds open (%s) is written from the version that was opened',
    async (flags) => {
      const { a, b } = await twoWithLog('a1\n')
      file = await OpenFile.open(`${a.path}/log`, flags)
      await b.sh('echo B-PRECIOUS-AND-LONG >log')
      await untilShown(a, 'log', 'B-PRECIOUS-AND-LONG\n')
      expect(await (flags === 'os.O_RDWR' ? file.writeAt(3, 'a9') : file.write('a9'))).toBe('ok 2')
      expect(await file.close()).toBe('ok None')
      await expect.poll(sortedStored).toEqual(['B-PRECIOUS-AND-LONG\n', 'a1\na9'])
      const names = (await a.sh('ls')).trim().split('\n').sort()
      expect(names).toEqual(['log', expect.stringMatching(/^log \([0-9a-zA-Z]{8}\)$/)])
      expect(await a.sh('cat log')).toBe('a1\na9')
      const told = `log was changed on another machine; that version is ${names[1] ?? ''}`
      expect(await a.sh('cat .bagfs/status')).toContain(told)
      await expect.poll(() => a.log).toContain('was changed on another machine')
    },
  )

  it('and one of them read, is written from the version that was read, though its bag is gone', async () => {
    const { a, b } = await twoWithLog('a1\n')
    file = await OpenFile.open(`${b.path}/log`, 'os.O_WRONLY | os.O_APPEND')
    await a.sh('echo A-ANEW >log')
    await untilShown(b, 'log', 'A-ANEW\n')
    // The old bag goes a moment after the new one shows.
    await expect.poll(stored).toEqual(['A-ANEW\n'])
    expect(await file.write('b2')).toBe('ok 2')
    expect(await file.close()).toBe('ok None')
    await expect.poll(sortedStored).toEqual(['A-ANEW\n', 'a1\nb2'])
    expect(await b.sh('cat log')).toBe('a1\nb2')
  })

  it('and one of them holds open is cut in the version that was opened', async () => {
    const { a, b } = await twoWithLog('a1\n')
    file = await OpenFile.open(`${a.path}/log`, 'os.O_RDWR')
    await b.sh('echo B-PRECIOUS-AND-LONG >log')
    await untilShown(a, 'log', 'B-PRECIOUS-AND-LONG\n')
    expect(await file.truncate(0)).toBe('ok None')
    expect(await file.writeAt(0, 'a9')).toBe('ok 2')
    expect(await file.close()).toBe('ok None')
    await expect.poll(sortedStored).toEqual(['B-PRECIOUS-AND-LONG\n', 'a9'])
  })

  it('is read to its end by a program that has it open, while others read the new version', async () => {
    const long = 'old version '.repeat(4_000)
    const { a, b } = await twoWithLog(long)
    file = await OpenFile.open(`${b.path}/log`, 'os.O_RDONLY')
    await a.sh('printf new >log')
    await untilShown(b, 'log', 'new')
    expect(await b.sh('stat -c %s log')).toBe('3\n')
    newVersion = await OpenFile.open(`${b.path}/log`, 'os.O_RDONLY')
    expect(await newVersion.read()).toBe('new')
    expect(await file.read()).toBe(long)
    await a.sh('printf "%s" "and the third" >log')
    await untilShown(b, 'log', 'and the third')
    expect(await newVersion.read()).toBe('new')
    expect(await file.read()).toBe(long)
    // The version before goes a moment after the third is stored.
    await expect.poll(() => b.sh('ls -A; cat log')).toBe('log\nand the third')
    expect([await file.close(), await newVersion.close()]).toEqual(['ok None', 'ok None'])
    expect(await b.sh('ls -A; cat log')).toBe('log\nand the third')
  })

  it('is another one when it was removed and made anew while a program has it open', async () => {
    const long = 'old version '.repeat(4_000)
    const { a, b } = await twoWithLog(long)
    file = await OpenFile.open(`${b.path}/log`, 'os.O_RDONLY')
    await a.sh('rm log')
    await expect.poll(() => b.sh('ls')).toBe('')
    await a.sh('printf new >log')
    await untilShown(b, 'log', 'new')
    expect(await file.read()).toBe(long)
    expect(await b.sh('cat log')).toBe('new')
  })

  it('and one of them writes from the end that it opened, is written there', async () => {
    const { a, b } = await twoWithLog('the first of two lines\n')
    file = await OpenFile.open(`${b.path}/log`, 'os.O_RDWR')
    await a.sh('printf "new\\n" >log')
    await untilShown(b, 'log', 'new\n')
    expect(await file.seekEnd()).toBe('ok 23')
    expect(await file.write('the second')).toBe('ok 10')
    expect(await file.close()).toBe('ok None')
    const both = ['new\n', 'the first of two lines\nthe second']
    await expect.poll(sortedStored).toEqual(both)
  })

  it('is told at close not to be stored, also while another program holds the old version open', async () => {
    const { a, b } = await twoWithLog('a1\n')
    file = await OpenFile.open(`${a.path}/log`, 'os.O_RDWR')
    await b.sh('echo B-PRECIOUS-AND-LONG >log')
    await untilShown(a, 'log', 'B-PRECIOUS-AND-LONG\n')
    bench.service.proxy.add({
      match: { method: 'POST', path: /upload$/ },
      fault: { answer: { status: 422, body: '{"detail":"refused by the test"}' } },
    })
    newVersion = await OpenFile.open(`${a.path}/log`, 'os.O_RDWR')
    expect(await newVersion.writeAt(0, 'a9')).toBe('ok 2')
    expect(await newVersion.close()).toBe('EIO')
  })

  it('keeps what is written to it after the other machine removed it', async () => {
    const { a, b } = await twoWithLog('a1\n')
    file = await OpenFile.open(`${a.path}/log`, 'os.O_RDWR')
    await b.sh('rm log')
    await expect.poll(() => a.sh('ls')).toBe('')
    expect(await file.writeAt(3, 'a9')).toBe('ok 2')
    expect(await file.close()).toBe('ok None')
    await expect.poll(stored).toEqual(['a1\na9'])
    expect(await a.sh('cat log')).toBe('a1\na9')
  })

  it('is two versions when both write it in mode back before they hear of each other', async () => {
    const { a, b } = await twoWithLog('a1\n', ['--write-back', ...SLOW], ['--write-back', ...EAGER])
    await a.sh('ls -l; cat log')
    await b.sh('echo B-PRECIOUS >>log')
    await bench.bagfs(['sync', b.path])
    await a.sh('echo a9 >>log')
    expect((await bench.bagfs(['sync', a.path])).code).toBe(0)
    expect(await sortedStored()).toEqual(['a1\nB-PRECIOUS\n', 'a1\na9\n'])
  })

  it.each([
    ['removed', 'rm log', ['same\n']],
    ['overwritten', 'echo mine >log', ['mine\n', 'same\n']],
    ['renamed', 'mv log old', ['same\n', 'same\n']],
  ])(
    'stays when it was %s here in mode back and the other machine stored the same again before this is sent',
    async (_, command, left) => {
      const bag = await bench.service.upload('log', 'same\n')
      const a = await bench.mount('--write-back', ...EAGER)
      await untilShown(a, 'log', 'same\n')
      const { proxy } = bench.service
      const isTakenAgain = proxy.add({
        match: { method: 'DELETE' },
        fault: { answer: { status: 503 } },
      })
      await a.sh(command)
      await expect.poll(() => hasFailure(a)).toBe(true)
      expect(await bench.service.upload('log', 'same\n')).toBe(bag)
      await untilListedAnew(a)
      // Deletes are refused until nothing asks for one any more.
      await expect.poll(() => hasFailure(a)).toBe(false)
      isTakenAgain()
      expect(await sortedStored()).toEqual(left)
      await expect.poll(() => a.sh('cat * | sort')).toBe(left.join(''))
    },
  )

  it('keeps its name when the other machine replaced it before it was renamed here, and that is given up', async () => {
    await bench.service.upload('log.txt', 'a1\n')
    const a = await bench.mount('--write-back', ...SLOW)
    await a.sh('ls')
    const b = await bench.mountOther(...EAGER)
    await b.sh('echo b >log.txt')
    await expect.poll(stored).toEqual(['b\n'])
    await a.sh('mv log.txt old.txt')
    await expect.poll(() => hasFailure(a)).toBe(true)
    const { outbox } = await statusOf(a)
    expect(outbox.map(({ name, state }) => `${name}: ${state}`)).toEqual([
      'old.txt: failed: Its content is gone at the service, so it cannot be stored under another name (waits for you)',
    ])
    expect(await stored()).toEqual(['b\n'])
    const ids = outbox.map(({ id }) => id)
    const given = await bench.bagfs(['outbox', 'discard', a.path, ...ids, '--yes'])
    expect(given.code, given.stderr).toBe(0)
    expect((await bench.bagfs(['refresh', a.path])).code).toBe(0)
    expect(await a.sh('ls; cat log.txt')).toBe('log.txt\nb\n')
    expect(await stored()).toEqual(['b\n'])
  })

  it.each([
    ['removed', 'rm log', ['b\n']],
    ['overwritten', 'echo a2 >log', ['a2\n', 'b\n']],
    ['replaced by a rename', 'echo a2 >tmp-of-a; mv -f tmp-of-a log', ['a2\n', 'b\n']],
    ['renamed', 'mv log old', ['a1\n', 'b\n']],
  ])(
    'stays in its other version when it is %s here before this is heard',
    async (_, command, left) => {
      const { a, b } = await twoWithLog('a1\n', SLOW)
      await a.sh('ls -l; cat log')
      await b.sh('echo b >log')
      await a.sh(command)
      expect((await bench.bagfs(['sync', a.path])).code).toBe(0)
      expect((await bench.bagfs(['sync', b.path])).code).toBe(0)
      await expect.poll(sortedStored).toEqual(left)
    },
  )
})

describe.runIf(canMount())('a drive that is killed while an open file leaves its name', () => {
  it('keeps no program waiting', async () => {
    const a = await bench.mount(...EAGER, '--bridge', 'fuse-native')
    const { proxy } = bench.service
    await a.sh('echo old >log; echo gone >removed')
    file = await OpenFile.open(`${a.path}/log`, 'os.O_RDONLY')
    const [old] = (await bench.service.list()).filter(({ filename }) => filename === 'log')
    const mayList = deferred()
    const gate = { before: () => mayList.promise }
    proxy.add({ match: { path: /files_list$/ }, fault: gate })
    const hasAsked = async (): Promise<boolean> => {
      await a.sh('ls')
      return proxy.requests.some(({ fault, isOver }) => fault === gate && !isOver)
    }
    await expect.poll(hasAsked).toBe(true)
    await bench.service.upload('log', 'new and longer')
    await bench.service.delete(old?.bag_id ?? '')
    proxy.add({ match: { method: 'DELETE' }, fault: { silence: true } })
    // The kernel locks the directory for it, and the rename of the open file waits for that.
    let said = ''
    const removing = a.fails('rm removed').then(({ stderr }) => (said = stderr))
    try {
      await expect.poll(() => proxy.requests.some(({ method }) => method === 'DELETE')).toBe(true)
      mayList.resolve()
      await expect.poll(() => programsThatWait(a)).toContain('mv')
      a.signal('SIGKILL')
      await expect.poll(() => said).toMatch(/cannot remove/)
    } finally {
      // What still waits for the drive would do so for ever.
      spawnSync('umount', ['-f', a.path])
      await removing
    }
  })
})

/** Programs that the drive has started and that wait within the kernel. */
async function programsThatWait({ process }: MountedDrive): Promise<string> {
  const args = ['-l', '-r', 'D', '-P', `${process.pid ?? 0}`]
  return (await execa('pgrep', args, { reject: false })).stdout
}
