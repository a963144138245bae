import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { execa } from 'execa'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { canMount } from '../support/fuse.ts'
import { Bench, HANGING_MS } from '../support/mounted-drive.ts'
import { PROGRAM } from '../support/service-process.ts'

/** A call that the drive made, and when it had ended, in seconds since the epoch. */
interface SystemCall {
  readonly text: string
  readonly endedAt: number
}

/** True when system calls can be watched here. Says loudly when not; CI must be able to. */
function canTrace(): boolean {
  const works = spawnSync('strace', ['-f', '-qq', '-e', 'trace=none', 'true']).status === 0
  if (!works && process.env['BAGFS_REQUIRE_MOUNT'] === '1') throw new Error('strace is missing.')
  if (!works) console.error('\n*** POWER CUT TESTS SKIPPED: strace cannot be used here. ***\n')
  return works
}

const AFTER_CLOSE = 'asked-for-after-close'

describe.runIf(canMount() && canTrace())('what was closed survives a power cut', () => {
  let bench: Bench
  let traced: ChildProcess | undefined
  beforeEach(async () => {
    bench = await Bench.start()
  })
  afterEach(async () => {
    spawnSync('fusermount', ['-uz', join(bench.dir, 'drive')], { timeout: 5_000 })
    if (traced?.exitCode === null && traced.signalCode === null) {
      await once(traced, 'exit', { signal: AbortSignal.timeout(HANGING_MS) })
    }
    traced = undefined
    await bench.close()
  })

  /** Mounts under strace, runs the command in the drive, and answers the calls of the drive, with those `later`. */
  const trace = async (
    command: string,
    args: readonly string[],
    later: (calls: readonly SystemCall[]) => boolean = () => true,
  ): Promise<SystemCall[]> => {
    const { dir, service } = bench
    for (const name of ['drive', 'state', 'trace']) mkdirSync(join(dir, name), { recursive: true })
    writeFileSync(join(dir, 'token'), service.token, { mode: 0o600 })
    const tracer = spawn(
      'strace',
      [
        ...['-ff', '-qq', '-y', '-ttt', '-T', '-s', '256', '-o', join(dir, 'trace', 'calls')],
        ...['-e', 'trace=read,write,rename,renameat,renameat2,fsync,fdatasync'],
        ...[process.execPath, PROGRAM, 'mount', join(dir, 'drive'), '--foreground'],
        ...['--url', service.proxy.url, '--token-file', join(dir, 'token')],
        ...['--state-dir', join(dir, 'state'), '--min-free', '1MB', ...args],
      ],
      { stdio: 'ignore' },
    )
    traced = tracer
    const mounts = (): string => readFileSync('/proc/self/mounts', 'utf8')
    await expect.poll(mounts).toContain(` ${join(dir, 'drive')} `)
    await execa('bash', ['-ec', `${command}; [ ! -e ${AFTER_CLOSE} ]`], {
      cwd: join(dir, 'drive'),
      timeout: HANGING_MS,
    })
    await expect.poll(() => later(readCalls(join(dir, 'trace')))).toBe(true)
    spawnSync('fusermount', ['-u', join(dir, 'drive')], { timeout: 5_000 })
    await once(tracer, 'exit', { signal: AbortSignal.timeout(HANGING_MS) })
    return readCalls(join(dir, 'trace'))
  }

  /** Calls on the outbox that had ended when the command's close had, in order, by what they touch. */
  const beforeClose = (calls: readonly SystemCall[]): readonly string[] => {
    const asked = calls.find(({ text }) => text.includes('/dev/fuse') && text.includes(AFTER_CLOSE))
    expect(asked, 'The drive was not asked after close').toBeDefined()
    return calls
      .filter(({ endedAt, text }) => endedAt < (asked?.endedAt ?? 0) && text.includes('outbox/v2'))
      .flatMap(({ text }) => nameOf(text) ?? [])
  }

  const DURABLE = [
    'sync content',
    'sync intent.json',
    'sync directory of the intent',
    'sync directory of the outbox',
  ]
  const DURABLE_IN_FOLDER = [
    'sync staged',
    'sync directory of staged',
    'sync journal',
    ...DURABLE.slice(1),
  ]

  it.each([
    ['in mode back: content and intent', ['--write-back'], 'cp /bin/true doc; sync doc', DURABLE],
    ['in mode back, of the directory', ['--write-back'], 'cp /bin/true doc; sync .', DURABLE],
    ['in mode through, of what is held back', [], 'cp /bin/true a.tmp; sync a.tmp', DURABLE],
    ['in a folder', [], 'mkdir F; cp /bin/true F/doc; sync F/doc', DURABLE_IN_FOLDER],
    ['in a folder, of the directory', [], 'mkdir F; cp /bin/true F/doc; sync F', DURABLE_IN_FOLDER],
  ])('when it was synced, %s', async (_, args, command, durable) => {
    const order = beforeClose(await trace(command, [...args, '--folder-settle', '1h']))
    expect(order).toEqual(expect.arrayContaining(durable))
    expect(order.indexOf('rename intent.json')).toBeLessThan(order.indexOf('sync intent.json'))
  })

  it.each([
    ['in mode back', ['--write-back'], 'cp /bin/true doc', DURABLE],
    ['in a folder', [], 'mkdir F; cp /bin/true F/doc', DURABLE_IN_FOLDER],
  ])('a second later, when nothing asks for that, %s', async (_, args, command, durable) => {
    const isThere = (calls: readonly SystemCall[]): boolean => {
      const names = new Set(calls.map(({ text }) => nameOf(text)))
      return durable.every((name) => names.has(name))
    }
    await trace(command, [...args, '--folder-settle', '1h'], isThere)
  })

  it('in mode back what is stored leaves the outbox after that', async () => {
    const isGiven = ({ text }: SystemCall): boolean => /^rename.*\/content".*\/cache\//.test(text)
    const calls = await trace('cp /bin/true doc', ['--write-back'], (all) => all.some(isGiven))
    const before = calls.slice(0, calls.findIndex(isGiven)).map(({ text }) => nameOf(text))
    expect(before).toEqual(expect.arrayContaining(DURABLE))
  })

  it('a move into a folder: all is there before the old place goes', async () => {
    const calls = await trace('mkdir A B; cp /bin/true A/doc; mv A/doc B/', [
      ...['--folder-settle', '1h'],
    ])
    const removed = calls.findIndex(({ text }) => /^write.*"op\\":\\"remove\\"/.test(text))
    const placed = calls.findIndex(({ text }) => /^write.*"op\\":\\"tree\\"/.test(text))
    expect(removed).toBeGreaterThan(placed)
    const between = calls.slice(placed, removed).map(({ text }) => nameOf(text))
    expect(between).toEqual(
      expect.arrayContaining(['sync directory of staged', 'sync journal', 'sync intent.json']),
    )
  })

  it('in mode through a file that the service has needs no fsync (this test can fail)', async () => {
    const order = beforeClose(await trace('cp /bin/true doc', []))
    expect(order).toContain('rename intent.json')
    expect(order).not.toContain('sync content')
    expect((await bench.service.list()).map(({ filename }) => filename)).toEqual(['doc'])
  })
})

/** All calls of all threads, by the time at which they had ended. */
function readCalls(dir: string): SystemCall[] {
  const calls = readdirSync(dir).flatMap((file) =>
    readFileSync(join(dir, file), 'latin1')
      .split('\n')
      .flatMap((line) => {
        const parts = /^(\d+\.\d+) (.*) = \d+(?:<.*>)? <(\d+\.\d+)>$/.exec(line)
        if (parts === null) return []
        const [, start, text = '', took] = parts
        return [{ text, endedAt: Number(start) + Number(took) }]
      }),
  )
  return calls.sort((one, other) => one.endedAt - other.endedAt)
}

/** What a call does to the outbox, in words; undefined for a call that does not matter. */
function nameOf(text: string): string | undefined {
  if (/^rename.*"[^"]*\/intent\.json"/.test(text)) return 'rename intent.json'
  const path = /^f(?:data)?sync\(\d+<(.*)>\)/.exec(text)?.[1]
  if (path === undefined) return undefined
  if (path.endsWith('/content')) return 'sync content'
  if (/\/files\/\d+$/.test(path)) return 'sync staged'
  if (path.endsWith('/files')) return 'sync directory of staged'
  if (path.endsWith('/journal.jsonl')) return 'sync journal'
  if (path.endsWith('/intent.json')) return 'sync intent.json'
  if (/\/v2\/\d{17}$/.test(path)) return 'sync directory of the intent'
  return path.endsWith('/v2') ? 'sync directory of the outbox' : undefined
}
