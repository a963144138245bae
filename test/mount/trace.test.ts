import { chownSync, mkdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { canRunAsOther, canMount } from '../support/fuse.ts'
import { Bench } from '../support/mounted-drive.ts'
import { asOther, letOthersPass, OTHER_UID } from '../support/other-user.ts'
import { PROGRAM } from '../support/service-process.ts'
import { TraceRun } from '../support/trace-run.ts'
import { placesIn, registryIn } from '../support/places.ts'

let bench: Bench
const runs: TraceRun[] = []
afterEach(async () => {
  for (const run of runs.splice(0)) run.kill()
  await bench.close()
})

async function trace(...args: readonly string[]): Promise<TraceRun> {
  const run = await TraceRun.start(args, { runtimeDir: bench.dir })
  runs.push(run)
  return run
}

describe.runIf(canMount())('bagfs trace', () => {
  it('shows what programs do, with path, bytes, result and process, until Ctrl-C', async () => {
    bench = await Bench.start()
    await bench.service.upload('a.txt', 'hello\n')
    const drive = await bench.mount('--write-back')
    const [run, words] = [await trace('--json', drive.path), await trace()]
    const pidOfCat = Number(await drive.sh('bash -c "echo \\$\\$; exec cat a.txt >&2"'))
    await drive.sh('ls; mkdir docs; echo new > docs/b.txt; mv docs/b.txt docs/c.txt')
    await drive.fails('cat missing.txt')
    const ofCat = { program: 'cat', pid: pidOfCat }
    expect(await run.sees({ operation: 'open', path: '/a.txt', ...ofCat })).toMatchObject({
      result: 'ok',
      tookMs: expect.any(Number) as unknown,
      time: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/) as unknown,
    })
    await run.sees({ operation: 'read', path: '/a.txt', result: 'ok', bytes: 6, ...ofCat })
    await run.sees({ operation: 'opendir', path: '/', program: 'ls' })
    await run.sees({ operation: 'write', path: '/docs/b.txt', bytes: 4, program: 'bash' })
    await run.sees({ operation: 'rename2', path: '/docs/b.txt', to: '/docs/c.txt', program: 'mv' })
    await run.sees({ operation: 'lookup', path: '/missing.txt', result: 'ENOENT', program: 'cat' })
    expect([await run.interrupt(), await words.interrupt()]).toEqual([0, 0])
    expect(run.said).toBe(`Tracing ${drive.path}. Ctrl-C ends it.\n`)
    expect(words.out).toMatch(/^\S+Z read \/a\.txt \d+ at 0: ok 6, \d+\.\d\d ms, cat \(\d+\)$/m)
    expect(words.out).toMatch(/^\S+Z lookup \/missing\.txt: ENOENT, \d+\.\d\d ms, cat \(\d+\)$/m)
  })

  it('shows what it is asked for alone', async () => {
    bench = await Bench.start()
    const drive = await bench.mount('--write-back')
    const docs = await trace('--json', '--op', 'mkdir,rename', '--path', join(drive.path, 'docs/'))
    const slow = await trace('--json', '--slow', '1h')
    await drive.sh('mkdir docs docs/in other; mv other docs/other; echo > docs/a; rmdir docs/in')
    await docs.sees({ operation: 'rename2', to: '/docs/other' })
    expect(docs.lines.map(({ operation, path }) => [operation, path])).toEqual([
      ['mkdir', '/docs/in'],
      ['rename2', '/other'],
    ])
    const ofOne = await trace('--json', '--pid', String(process.pid))
    readFileSync(join(drive.path, 'docs/a'))
    await drive.sh('cat docs/a')
    await ofOne.sees({ operation: 'open', path: '/docs/a', pid: process.pid })
    await ofOne.interrupt()
    expect(new Set(ofOne.lines.map(({ pid }) => pid))).toEqual(new Set([process.pid]))
    await slow.interrupt()
    expect(slow.lines).toEqual([])
  })

  it('refuses what it does not know', async () => {
    bench = await Bench.start()
    const drive = await bench.mount()
    const said = async (...args: readonly string[]): Promise<string> => {
      const { code, stderr } = await bench.bagfs(['trace', drive.path, ...args])
      expect(code).toBe(2)
      return stderr
    }
    expect(await said('--op', 'read,red')).toMatch(/^bagfs: "red" is no operation.*\n.*readlink/)
    expect(await said('--pid', 'cat')).toContain('not the number of a process')
    expect(await said('--slow', '5')).toContain('not a duration')
  })

  it('loses operations, and says how many, when it is not read; the drive goes on as before', async () => {
    bench = await Bench.start()
    const drive = await bench.mount()
    const run = await trace('--json', '--op', 'lookup')
    run.process.kill('SIGSTOP')
    const files = 20_000
    await drive.sh(
      `node -e 'for (let i = 0; i < ${files}; i += 1) require("fs").existsSync("missing-" + i)'`,
    )
    run.process.kill('SIGCONT')
    const { lost } = await eventually(() => {
      const found = run.lines.find((line) => line.lost !== undefined)
      expect(found).toBeDefined()
      return found as { lost: number }
    })
    const shown = run.lines.filter(({ path }) => path?.startsWith('/missing-') === true)
    expect(shown.length + lost).toBeGreaterThanOrEqual(files)
    expect(lost).toBeGreaterThan(0)
    await drive.sh('cat after || true')
    await run.sees({ operation: 'lookup', path: '/after', result: 'ENOENT' })
    expect(await run.interrupt()).toBe(0)
  })

  it('does not hold up a drive that leaves, and says that it has left', async () => {
    bench = await Bench.start()
    const drive = await bench.mount()
    const [run, stuck] = [await trace(), await trace()]
    stuck.process.kill('SIGSTOP')
    await drive.sh('ls')
    expect((await bench.bagfs(['umount', drive.path])).code).toBe(0)
    expect(await drive.ended()).toBe(0)
    expect(await run.ended()).toBe(0)
    expect(run.said).toContain(`The drive at ${drive.path} has left.`)
    expect(run.out).toContain(' opendir /: ok')
    stuck.process.kill('SIGCONT')
    expect(await stuck.ended()).toBe(0)
  })

  it('says that the drive was killed', async () => {
    bench = await Bench.start()
    const drive = await bench.mount()
    const run = await trace()
    await drive.kill()
    expect(await run.ended()).toBe(5)
    expect(run.said).toContain('bagfs: The process of the drive has ended.')
  })

  it('does not trace itself when its output goes to the drive', async () => {
    bench = await Bench.start()
    const drive = await bench.mount('--write-back')
    const into = join(drive.path, 'trace.log')
    const options = { runtimeDir: bench.dir, into }
    const run = await TraceRun.start(['--json'], options)
    runs.push(run)
    await drive.sh('cat missing || true')
    const written = (): string => readFileSync(into, 'utf8')
    await eventually(() => {
      expect(written()).toContain('/missing')
    })
    await run.interrupt()
    const pids = written()
      .trim()
      .split('\n')
      .map((line) => (JSON.parse(line) as { pid?: number }).pid)
    expect(pids).not.toContain(run.process.pid)
  })

  it('over fuse-native shows the same without the process, and refuses what it cannot know', async () => {
    bench = await Bench.start({ bridge: 'fuse-native' })
    await bench.service.upload('a.txt', 'hello\n')
    const drive = await bench.mount()
    const run = await trace('--json')
    await drive.sh('cat a.txt; ls')
    await drive.fails('cat missing.txt')
    expect(await run.sees({ operation: 'read', path: '/a.txt', bytes: 6 })).not.toHaveProperty(
      'pid',
    )
    await run.sees({ operation: 'readdir', path: '/', result: 'ok' })
    await run.sees({ operation: 'getattr', path: '/missing.txt', result: 'ENOENT' })
    expect(await run.interrupt()).toBe(0)
    const byPid = await bench.bagfs(['trace', '--pid', '1'])
    expect(byPid.code).toBe(2)
    expect(byPid.stderr).toContain('does not know which process asks')
    const program = `${process.execPath} ${resolve(PROGRAM)}`
    const environment = `XDG_RUNTIME_DIR=${bench.dir} XDG_STATE_HOME=${bench.dir}`
    const itself = await drive.fails(`${environment} ${program} trace > trace.log`)
    expect(itself.code).toBe(2)
    expect(itself.stderr).toContain('cannot be written to the drive that it is of')
  })

  it.runIf(canRunAsOther())('is refused to another user', async () => {
    bench = await Bench.start()
    const drive = await bench.mount('--allow-other')
    letOthersPass(bench.dir)
    const theirs = join(bench.dir, 'theirs')
    mkdirSync(theirs)
    chownSync(theirs, OTHER_UID, OTHER_UID)
    const asThem = await asOther(`${process.execPath} ${resolve(PROGRAM)} trace ${drive.path}`, {
      env: placesIn(theirs),
    })
    expect(asThem.code).toBe(2)
    const { socketPath } = (await registryIn(bench.dir).find(drive.path)) ?? {}
    const script = `require("net").connect(process.argv[1]).on("error", (error) => console.log(error.code)).on("connect", () => console.log("let in"))`
    const direct = await asOther(`${process.execPath} -e '${script}' '${String(socketPath)}'`)
    expect(direct.said).toBe('EACCES')
  })
})
