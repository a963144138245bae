import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import {
  access,
  chmod,
  constants,
  copyFile,
  mkdir,
  readdir,
  readFile,
  writeFile,
} from 'node:fs/promises'
import { join } from 'node:path'
import { execa } from 'execa'
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { findMount } from '../../src/disk/find-mount.ts'
import { canActAsOther, canMount } from '../support/fuse.ts'
import { Bench } from '../support/mounted-drive.ts'
import { OpenFile } from '../support/open-file.ts'
import { letOthersPass, OTHER_UID } from '../support/other-user.ts'
import { PROGRAM } from '../support/service-process.ts'

/** Starts a program, and answers how it ended: its exit code or the signal. */
function begin(program: string, ...args: readonly string[]) {
  const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'] })
  const said: Buffer[] = []
  child.stdout.on('data', (piece: Buffer) => said.push(piece))
  const ended = once(child, 'close').then(([code, signal]: (number | string | null)[]) => ({
    how: signal ?? code,
    said: Buffer.concat(said).toString(),
  }))
  return { child, ended, said: () => Buffer.concat(said).toString() }
}

/** The system call that a program is in waits for a file system (proc(5), state D or S with wchan). */
async function untilItWaits(pid: number | undefined): Promise<void> {
  const place = `/proc/${pid ?? 0}/wchan`
  await expect
    .poll(() => readFileSync(place, 'utf8'))
    .toMatch(/fuse|request_wait_answer|folio_wait/)
}

/** Far less than the service may be silent. */
function within<Result>(task: Promise<Result>): Promise<Result> {
  const tooLate = new Promise<never>((_resolve, reject) => {
    setTimeout(() => {
      reject(new Error('It took too long.'))
    }, 8_000).unref()
  })
  return Promise.race([task, tooLate])
}

describe.runIf(canMount())('a drive over dev-fuse', () => {
  let bench: Bench
  beforeEach(async () => {
    bench = await Bench.start({ bridge: 'dev-fuse' })
  })
  afterEach(async () => {
    await bench.close()
  })

  it('says so in its status', async () => {
    const drive = await bench.mount()
    const { stdout } = await bench.bagfs(['status', drive.path])
    expect(stdout).toContain('Bridge:   dev-fuse\n')
  })

  it('leads no old name to what turned out to be a folder, or a file', async () => {
    const drive = await bench.mount('--listing-ttl', '50ms')
    await drive.sh(`cd ..; echo one > one.txt; python3 -m zipfile -c it.zip one.txt`)
    await bench.service.upload('it.zip', readFileSync(join(bench.dir, 'it.zip')))
    const kindOf = (name: string): Promise<string> => drive.sh(`stat -c %F ${name} 2>&1 || true`)
    const becomes = async (kind: string, name: string, other: string): Promise<void> => {
      await expect.poll(() => kindOf(name)).toBe(`${kind}\n`)
      await expect.poll(() => kindOf(other)).toContain('No such file')
    }
    await becomes('regular file', 'it.zip', 'it')
    await drive.sh('setfattr -n user.bagfs.kind -v folder it.zip')
    await becomes('directory', 'it', 'it.zip')
    expect(await drive.sh('cat it/one.txt')).toBe('one\n')
    await drive.sh('setfattr -n user.bagfs.kind -v file it')
    await becomes('regular file', 'it.zip', 'it')
  })

  it('makes its status anew each time it is read', async () => {
    const drive = await bench.mount('--listing-ttl', '100ms')
    const records = (): Promise<string> => drive.sh('ls; grep records .bagfs/status.json')
    expect(await records()).toContain('"records": 0')
    await bench.service.upload('f', 'x')
    await expect.poll(records).toContain('"records": 1')
    await bench.service.upload('g', 'x')
    await expect.poll(records).toContain('"records": 2')
  })

  it('takes a time alone, in every way, and leaves the others', async () => {
    const drive = await bench.mount('--write-back')
    const seen = await drive.sh(
      `echo x > f; touch -d 2001-02-03T04:05:06.789Z f; touch -a -d 2002-03-04T05:06:07Z f
      TZ=UTC stat -c '%x %y' f; touch -m -d 2003-01-01T00:00:00Z f; TZ=UTC stat -c %y f`,
    )
    expect(seen).toContain('2001-02-03 04:05:06.789000000')
    expect(seen).toContain('\n2003-01-01 00:00:00.000000000')
  })

  it('shows no other name for a removed file that is open, and keeps its folder until it is closed', async () => {
    const drive = await bench.mount('--write-back')
    await drive.sh('mkdir d; echo one > d/f')
    const file = await OpenFile.open(join(drive.path, 'd/f'), 'os.O_RDWR')
    await drive.sh('rm d/f; [ -z "$(ls -A d)" ]')
    expect((await drive.fails('rmdir d')).stderr).toContain('not empty')
    expect(await file.writeAt(3, 'two')).toBe('ok 3')
    expect(await file.read()).toContain('onetwo')
    expect(await file.close()).toContain('ok')
  })

  it('has the kernel read far ahead where root may', async ({ skip }) => {
    const drive = await bench.mount()
    const place = `/sys/class/bdi/${(await drive.sh('mountpoint -d .')).trim()}/read_ahead_kb`
    const mayRaise = await access(place, constants.W_OK).then(
      () => true,
      () => false,
    )
    if (!mayRaise) skip('This machine lets nothing be written to /sys.')
    // The drive asks for it a moment after the kernel has mounted it.
    await expect.poll(() => readFile(place, 'utf8')).toBe('2048\n')
  })

  it('renames without replacing when it is asked to', async () => {
    const drive = await bench.mount('--write-back')
    const script = `
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
for name in ('a', 'b'): open(name, 'w').write(name)
for to, flags in (('b', 1), ('b', 3), ('c', 1)):
    done = libc.renameat2(-100, b'a', -100, to.encode(), flags)
    print(0 if done == 0 else os.strerror(ctypes.get_errno()))`
    const { stdout } = await execa('python3', ['-c', script], { cwd: drive.path })
    expect(stdout.split('\n')).toEqual(['File exists', 'Invalid argument', '0'])
    expect((await readdir(drive.path)).sort()).toEqual(['b', 'c'])
  })

  it('goes on with an open file that is moved into a folder and out of it', async () => {
    const drive = await bench.mount('--write-back')
    await drive.sh('mkdir d; echo -n one > f')
    const file = await OpenFile.open(join(drive.path, 'f'), 'os.O_RDWR | os.O_APPEND')
    await drive.sh('mv f d/g')
    expect(await file.write('two')).toBe('ok 3')
    expect(await file.seekEnd()).toBe('ok 6')
    await drive.sh('mv d/g h')
    expect(await file.write('three')).toBe('ok 5')
    expect(await file.close()).toContain('ok')
    expect(await readFile(join(drive.path, 'h'), 'utf8')).toBe('onetwothree')
  })

  it('shows at once what is written to an open file that was moved, by its new name', async () => {
    const drive = await bench.mount('--write-back')
    await drive.sh('mkdir d; : > f')
    const held = await OpenFile.open(join(drive.path, 'f'), 'os.O_WRONLY | os.O_APPEND')
    await drive.sh('mv f d/g')
    // The kernel learns the name anew, with the size.
    await drive.sh('ls -l d; stat d/g')
    const other = await OpenFile.open(join(drive.path, 'd/g'), 'os.O_RDWR')
    expect(await held.write('one')).toBe('ok 3')
    expect(await other.read()).toBe('one')
    expect(await drive.sh('cat d/g')).toBe('one')
    expect(await other.writeAt(3, 'two')).toBe('ok 3')
    expect(await held.write('three')).toBe('ok 5')
    expect(await drive.sh('cat d/g')).toBe('onetwothree')
    await drive.sh('rm d/g')
    expect(await drive.sh(`stat -Lc %h /proc/${held.pid ?? 0}/fd/3`)).toBe('0\n')
    expect(await other.close()).toContain('ok')
    expect(await held.close()).toContain('ok')
  })

  it('shows a program that stays in a folder what another machine puts there', async () => {
    const one = await bench.mount('--listing-ttl', '200ms', '--folder-settle', '50ms')
    await one.sh('mkdir d; echo 1 > d/first')
    expect((await bench.bagfs(['sync', one.path])).code).toBe(0)
    const script = `
import os, sys, time
os.chdir(sys.argv[1])
os.listdir('.')
print('here', flush=True)
end = time.time() + 60
while time.time() < end:
    try: print(open('second').read(), end='', flush=True); break
    except FileNotFoundError: time.sleep(0.1)`
    const stays = begin('python3', '-c', script, join(one.path, 'd'))
    const other = await bench.mountOther('--folder-settle', '50ms')
    await expect.poll(() => other.sh('ls d')).toBe('first\n')
    await other.sh('echo 2 > d/second')
    expect(await stays.ended).toEqual({ how: 0, said: 'here\n2\n' })
  })

  it('shows what another machine changes while the kernel answers by itself', async () => {
    const one = await bench.mount('--listing-ttl', '500ms', '--folder-settle', '50ms')
    await one.sh('mkdir d; echo 1 > d/f; echo 1 > f; echo 1 > gone')
    expect((await bench.bagfs(['sync', one.path])).code).toBe(0)
    const other = await bench.mountOther('--folder-settle', '50ms')
    await expect.poll(() => other.sh('cat d/f f gone')).toBe('1\n1\n1\n')
    // It looks so often that nothing of what it was told would end by its age.
    const script = `
import os, time
def seen():
    there = [name for name in ('new', 'gone', 'd/new') if os.path.exists(name)]
    return [open(name).read() for name in ('f', 'd/f')] + there + sorted(os.listdir('.') + os.listdir('d'))
print('here', flush=True)
end = time.time() + 60
wanted = ['two\\n', 'two\\n', 'new', 'd/new', 'd', 'f', 'f', 'new', 'new']
while time.time() < end:
    now = seen()
    if now == wanted: break
    time.sleep(0.02)
print(now == wanted or now)`
    const looks = begin('python3', '-c', `import os; os.chdir('${one.path}')\n${script}`)
    await expect.poll(() => looks.said()).toBe('here\n')
    await other.sh('echo two > f; echo two > d/f; echo > new; echo > d/new; rm gone')
    expect(await looks.ended).toEqual({ how: 0, said: 'here\nTrue\n' })
  })

  it.each(['d', 'd/s', 'd/s/t'])(
    'keeps a program in %s when another machine changes the folder',
    async (where) => {
      const one = await bench.mount('--listing-ttl', '200ms', '--folder-settle', '50ms')
      await one.sh('mkdir -p d/s/t; for i in d d/s d/s/t; do echo 1 > $i/f; done')
      expect((await bench.bagfs(['sync', one.path])).code).toBe(0)
      const other = await bench.mountOther('--folder-settle', '50ms')
      await expect.poll(() => other.sh('ls d')).toBe('f\ns\n')
      const script = `
import os, sys
os.chdir(sys.argv[1])
held = os.open('.', os.O_RDONLY)
inode = os.fstat(held).st_ino
print('here', flush=True)
sys.stdin.readline()
print(open('f').read(), 'f' in os.listdir('.'), 'f' in os.listdir(held), os.getcwd() == sys.argv[1])
print(os.stat(sys.argv[1]).st_ino == inode)
open('made', 'w').close()`
      const stays = begin('python3', '-c', script, join(one.path, where))
      await expect.poll(() => stays.said()).toBe('here\n')
      await other.sh('echo 2 > d/second')
      await expect.poll(() => one.sh('cat d/second || true')).toBe('2\n')
      stays.child.stdin.end('\n')
      expect(await stays.ended).toEqual({ how: 0, said: 'here\n1\n True True True\nTrue\n' })
      expect(await one.sh(`ls ${where}`)).toContain('made')
    },
  )

  it.each([
    ['into a folder', 'c', 'g/c'],
    ['out of a folder', 'g/s', 'r'],
    ['to another folder', 'g/s', 'h/s'],
  ])(
    'goes on at once with a directory that moved %s, and with programs in it',
    async (_, from, to) => {
      const drive = await bench.mount('--write-back')
      await drive.sh('mkdir -p c/u/v g/s/u/v h; for i in c g/s; do echo 1 > $i/f; done')
      const move = `(cd ${from}; (cd $OLDPWD; mv -T ${from} ${to}); ls; cat f; mkdir n; echo w > u/w)`
      expect(await drive.sh(move)).toBe('f\nu\n1\n')
      expect(await drive.sh(`ls ${to}; ls ${to}/u; mkdir ${to}/u/v/y; cat ${to}/u/w`)).toBe(
        'f\nn\nu\nv\nw\nw\n',
      )
      await drive.sh(`rm -r ${to}; mkdir ${to}; [ -z "$(ls -A ${to})" ]`)
    },
  )

  it('tells that an open file has no name any more, and that a name is too long', async () => {
    const drive = await bench.mount('--write-back')
    await drive.sh('mkdir d; echo one > d/f; echo two > r')
    const script = `
import os
for path in ('d/f', 'r'):
    file = os.open(path, os.O_RDWR)
    before = os.fstat(file).st_nlink
    os.unlink(path)
    print(before, os.fstat(file).st_nlink)
for name in ('n' * 255, 'n' * 256):
    try: os.stat(name)
    except OSError as error: print(error.strerror)`
    const { stdout } = await execa('python3', ['-c', script], { cwd: drive.path })
    expect(stdout.split('\n')).toEqual([
      '1 0',
      '1 0',
      'No such file or directory',
      'File name too long',
    ])
  })

  it('lets programs end by Ctrl-C and kill while a file hangs, and not by other signals that they handle', async () => {
    await bench.service.upload('big', Buffer.alloc(3_000_000, 'x'))
    const drive = await bench.mount('--timeout', '20s')
    await drive.sh('ls')
    bench.service.proxy.add({ match: { path: /download/ }, fault: { silence: true } })
    const hung = begin('cat', join(drive.path, 'big'))
    await untilItWaits(hung.child.pid)
    hung.child.kill('SIGINT')
    expect((await within(hung.ended)).how).toBe('SIGINT')
    // Around the page cache, so that the system call itself waits for the answer.
    const script = `
import mmap, os, signal, sys
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.3)
try: os.preadv(os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT), [mmap.mmap(-1, 4096)], 1 << 21)
except KeyboardInterrupt: print('stopped')`
    const started = (): ReturnType<typeof begin> =>
      begin('python3', '-c', script, join(drive.path, 'big'))
    const [stopped, killed] = [started(), started()]
    for (const { child } of [stopped, killed]) {
      const status = `/proc/${child.pid ?? 0}/status`
      await expect.poll(() => readFileSync(status, 'utf8')).toMatch(/^ShdPnd:\s+0*2000$/m)
      await untilItWaits(child.pid)
    }
    stopped.child.kill('SIGINT')
    expect(await within(stopped.ended)).toEqual({ how: 0, said: 'stopped\n' })
    killed.child.kill('SIGKILL')
    expect((await within(killed.ended)).how).toBe('SIGKILL')
    expect(drive.log).not.toContain('A bug')
  })

  it('goes on after it stood still, and lets programs be killed meanwhile', async () => {
    const drive = await bench.mount('--write-back')
    await drive.sh('echo here > f')
    drive.signal('SIGSTOP')
    const waits = begin('stat', '-c', '%s', join(drive.path, 'f'))
    const killed = begin('ls', drive.path)
    await untilItWaits(killed.child.pid)
    killed.child.kill('SIGTERM')
    expect((await killed.ended).how).toBe('SIGTERM')
    drive.signal('SIGCONT')
    expect(await waits.ended).toEqual({ how: 0, said: '5\n' })
    expect(await drive.sh('cat f')).toBe('here\n')
  })

  it('is refused to leave while a program uses it, and goes on', async () => {
    const drive = await bench.mount()
    await writeFile(join(drive.path, 'f'), 'x')
    const file = await OpenFile.open(join(drive.path, 'f'), 'os.O_RDWR')
    const { code, stderr } = await bench.bagfs(['umount', drive.path])
    expect(code).toBe(7)
    expect(stderr).toContain('in use')
    expect(await file.writeAt(1, 'y')).toBe('ok 1')
    expect(await file.close()).toContain('ok')
    expect((await bench.bagfs(['umount', drive.path])).code).toBe(0)
    expect(await bench.service.contents()).toEqual({ f: 'xy' })
  })

  it('is killed under load, and loses nothing that was closed', async () => {
    const drive = await bench.mount('--write-back')
    const script = `
import os, sys, itertools
for n in itertools.count():
    try:
        with open(f'{sys.argv[1]}/f{n}', 'w') as f: f.write(str(n) * 1000)
        print(n, flush=True)
    except OSError as error: sys.exit(error.strerror)`
    const load = begin('python3', '-c', script, drive.path)
    load.ended.catch(() => undefined)
    await expect.poll(async () => (await readdir(drive.path)).length).toBeGreaterThan(5)
    drive.signal('SIGKILL')
    await drive.ended()
    const { said } = await load.ended
    const closed = said.trim().split('\n').map(Number)
    // The kernel may still answer a stat by itself.
    const opened = readFile(join(drive.path, 'f0'))
    await expect(opened).rejects.toMatchObject({ code: 'ENOTCONN' })
    expect((await bench.bagfs(['umount', '--now', drive.path])).code).toBe(1)
    const again = await bench.mount('--write-back')
    for (const n of closed) {
      expect(await readFile(join(again.path, `f${n}`), 'utf8')).toBe(String(n).repeat(1000))
    }
  })
})

describe.runIf(canActAsOther())('a drive over dev-fuse of root', () => {
  let bench: Bench
  beforeEach(async () => {
    bench = await Bench.start({ bridge: 'dev-fuse' })
  })
  afterEach(async () => {
    await bench.close()
  })

  it.each(['of this machine', 'of util-linux 2.39 and newer'])(
    'is known as one, and comes back after a kill, by the mount(8) %s',
    async (which) => {
      if (which !== 'of this machine') {
        const bin = join(bench.dir, 'bin')
        await mkdir(bin)
        await copyFile('test/support/new_mount.py', join(bin, 'mount'))
        await chmod(join(bin, 'mount'), 0o755)
        vi.stubEnv('PATH', `${bin}:${process.env['PATH'] ?? ''}`)
        onTestFinished(() => {
          vi.unstubAllEnvs()
        })
      }
      const drive = await bench.mount('--write-back')
      expect((await findMount(drive.path))?.type).toBe('fuse.bagfs')
      await drive.sh('echo one > f')
      drive.signal('SIGKILL')
      await drive.ended()
      expect(await bench.mountBy('--write-back')).toMatchObject({ code: 0 })
      expect(await drive.sh('cat f')).toBe('one\n')
      expect(await bench.bagfs(['umount', drive.path])).toMatchObject({ code: 0 })
    },
  )
})

describe.runIf(canActAsOther())('a drive over dev-fuse of a user without rights', () => {
  let bench: Bench
  beforeEach(async () => {
    bench = await Bench.start()
  })
  afterEach(async () => {
    await bench.close()
  })

  it('is mounted by fusermount3, and works', async () => {
    letOthersPass(bench.dir)
    const dir = join(bench.dir, 'theirs')
    const [user, token] = [`${OTHER_UID}`, bench.service.token]
    // A node of its own for the device, where the one of the machine is for root alone; no other user sees it.
    const prepare = `mkdir -p ${dir}/app ${dir}/dev ${dir}/m ${dir}/state ${dir}/run
      mknod ${dir}/dev/fuse c 10 229; chmod 666 ${dir}/dev/fuse; mount --bind ${dir}/dev/fuse /dev/fuse
      mount --bind ${process.cwd()} ${dir}/app
      echo ${token} > ${dir}/token; chmod 600 ${dir}/token
      chown ${user}:${user} ${dir} ${dir}/*[!p]; chmod 700 ${dir}/state ${dir}/run`
    const use = `cd /
      B="${process.execPath} ${dir}/app/${PROGRAM}"
      $B mount ${dir}/m --bridge dev-fuse --url ${bench.service.proxy.url} --token-file ${dir}/token \
        --state-dir ${dir}/state --min-free 1MB
      id -u; stat -f -c %T ${dir}/m; echo hello > ${dir}/m/f; cat ${dir}/m/f; $B umount ${dir}/m; ls ${dir}/m`
    const asUser = `setpriv --reuid=${user} --regid=${user} --clear-groups bash -ec '${use}'`
    const { exitCode, all } = await execa(
      'unshare',
      ['-m', '--propagation', 'private', 'bash', '-ec', `${prepare}\n${asUser}`],
      {
        all: true,
        reject: false,
        timeout: 50_000,
        env: { XDG_RUNTIME_DIR: `${dir}/run`, HOME: dir },
      },
    )
    expect(all).toMatch(/^Mounted at .*\n65534\n\S+\nhello$/m)
    expect(exitCode).toBe(0)
    expect(await bench.service.contents()).toEqual({ f: 'hello\n' })
  })
})
