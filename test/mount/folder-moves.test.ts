import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { execa } from 'execa'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { canMount } from '../support/fuse.ts'
import { Bench, type MountedDrive } from '../support/mounted-drive.ts'
import { unpackFolder } from '../support/unpacked.ts'

const GIVEN =
  'mkdir A B; for i in 1 2 3 4 5 6; do echo "file $i" > A/f$i; done; mkdir -p A/sub/deep A/sub/empty; head -c 400000 /dev/urandom > A/sub/big; echo d > A/sub/deep/d; ln -s deep/d A/sub/link; chmod 640 A/sub/deep/d; touch -d 2024-02-03T04:05:06 A/f2 A/sub/big A/sub/deep; echo b > B/b; mkdir B/in; echo r1 > r1; echo r2 > r2; chmod 600 r2; touch -d 2023-01-02T03:04:05 r2'

/** `rename(a, b)` is the system call, which \`mv\` tries and then works around. */
const PYTHON = 'import os\nfrom os import rename, mkdir\n'

/** Old and new name, and the file below it that is open. */
const OPEN_MOVES = [
  ['r1', 'A/r1'],
  ['A/f1', 'x'],
  ['A/sub/big', 'B/in/big'],
  ['A/sub', 'B/s', 'deep/d'],
  ['B/in', 'S', 'big'],
  ['D', 'A/D', 'd/b'],
  ['A/D/d', 'd', 'c'],
]

interface Crash {
  readonly from: string
  readonly to: string
  readonly step: 'move.placed' | 'move.removed'
  readonly args?: readonly string[]
}

const CRASHES: readonly Crash[] = [
  { from: 'r1', to: 'A/sub/r1', step: 'move.placed' },
  {
    from: 'A/sub/big',
    to: 'big',
    step: 'move.placed',
    args: ['--write-back', '--listing-lag', '1s'],
  },
  { from: 'A/sub', to: 'B/in/sub', step: 'move.placed' },
  { from: 'A/sub', to: 'B/in/sub', step: 'move.removed' },
  { from: 'A/sub', to: 'S', step: 'move.placed' },
  { from: 'A', to: 'B/in/A', step: 'move.placed' },
  { from: 'A', to: 'B/in/A', step: 'move.removed' },
]

describe.runIf(canMount())('moves between folders and the root', () => {
  let bench: Bench
  let drive: MountedDrive
  beforeEach(async () => {
    bench = await Bench.start()
    mkdirSync(join(bench.dir, 'plain'))
    await plain(GIVEN)
  })
  afterEach(async () => {
    await bench.close()
  })

  const plain = (command: string) =>
    execa('bash', ['-ec', command], { cwd: join(bench.dir, 'plain') })

  /** Mounts a drive that holds what the plain directory does, all of it at the service. */
  const given = async (...args: string[]): Promise<void> => {
    drive = await bench.mount('--listing-ttl', '60s', '--folder-settle', '1h', ...args)
    await drive.sh('cp -a ../plain/. .')
    expect(await bench.bagfs(['sync', bench.mountpoint])).toMatchObject({ code: 0 })
    bench.service.forgetEvents()
  }

  const compare = async (one: string, other: string): Promise<void> => {
    const options = { cwd: bench.dir }
    await execa('diff', ['-r', '--no-dereference', one, other], options)
    const list = `cd "$0"; find . -mindepth 1 -printf '%P %y %m %l\\n' | sort; find . -type f -printf '%P %Ts\\n' | sort`
    const [a, b] = await Promise.all(
      [one, other].map((dir) => execa('bash', ['-ec', list, dir], options)),
    )
    expect(b?.stdout).toBe(a?.stdout)
  }

  /** Renames by system calls in both, and compares what is shown and what the service has then. */
  const renames = async (calls: string): Promise<void> => {
    for (const dir of ['plain', 'drive']) {
      await execa('python3', ['-c', PYTHON + calls], { cwd: join(bench.dir, dir) })
    }
    await compare('plain', 'drive')
    await drive.leave()
    const { stdout } = await plain('ls')
    const records = await bench.service.list()
    const names = records.map(({ filename }) => filename.replace(/\.zip$/, ''))
    const empty = (await plain('find . -maxdepth 1 -mindepth 1 -type d -empty -printf "%f\\n"'))
      .stdout
    expect([...names, ...empty.split('\n').filter((name) => name !== '')].sort()).toEqual(
      stdout.split('\n'),
    )
    for (const { filename } of records.filter(({ filename }) => filename.endsWith('.zip'))) {
      await unpackFolder(bench.service, filename, join(bench.dir, 'unpacked'))
      await compare(join('plain', filename.slice(0, -4)), 'unpacked')
    }
  }
  const counts = (): readonly number[] => [bench.service.uploads().length, bench.service.deletes()]

  it.each([
    {
      title: 'files and subtrees, each way',
      calls:
        "rename('r2', 'A/sub/r2'); rename('A/f2', 'f2'); rename('A/sub/big', 'B/big'); rename('A/sub', 'B/in/s'); rename('B/in', 'S')",
      then: [4, 3],
    },
    {
      title: 'a folder into another, and all that was in one',
      calls: "rename('B/b', 'A/b'); rename('B/in', 'in'); rename('A', 'in/A')",
      then: [1, 2],
    },
    {
      title: 'over files and empty directories',
      calls:
        "rename('r1', 'A/f1'); rename('A/f2', 'r2'); mkdir('E'); rename('A/sub', 'E'); rename('E/deep', 'B/in')",
      then: [4, 4],
    },
    {
      title: 'there and back',
      calls: "rename('A/sub', 'S'); rename('S', 'A/sub'); rename('r1', 'B/r'); rename('B/r', 'r1')",
      // A zip with its entries in the order of before is the bag of before, and stays.
      then: [3],
    },
  ])('rename moves $title', async ({ calls, then }) => {
    await given()
    await renames(calls)
    expect(counts().slice(0, then.length)).toEqual(then)
  })

  it('rename answers what it answers elsewhere when it cannot be', async () => {
    await given()
    const tries = [
      ...["'A/f1', 'B/in'", "'r1', 'B/in'", "'A/f1', 'B'", "'A/sub', 'B/b'", "'A/sub', 'r1'"],
      ...["'A/sub', 'B'", "'B/in', 'A/sub'", "'A', 'B/b'", "'A', 'B'", "'A', 'A/sub/x'"],
      ...["'B', 'B/in/x'", "'A/none', 'x'", "'none', 'A/x'", "'A/f1', 'B/none/x'"],
    ]
    const program = `${PYTHON}\nfor pair in [${tries.map((pair) => `(${pair})`).join(', ')}]:\n  try:\n    rename(*pair); print(pair, 'done')\n  except OSError as e: print(pair, os.strerror(e.errno))`
    const [one, other] = await Promise.all(
      ['plain', 'drive'].map((dir) =>
        execa('python3', ['-c', program], { cwd: join(bench.dir, dir) }),
      ),
    )
    expect(other?.stdout).toBe(one?.stdout)
    expect(one?.stdout).toMatch(/not empty[^]*Is a directory|Is a directory[^]*not empty/)
    await compare('plain', 'drive')
    await drive.leave()
    expect(counts()).toEqual([0, 0])
  })

  it('mv does not copy, and a link that would leave its folder stays', async () => {
    await plain('ln -s ../f1 A/sub/up; ln -s f1 A/l')
    await given()
    expect((await drive.fails('mv A/sub S')).stderr).toContain('not permitted')
    expect((await drive.fails('mv A/l .')).stderr).toContain('not permitted')
    const moves = 'mv A/sub B/; mv A/l B/l; mv A/f1 A/f2 .; mv r1 A/; mv B/in A/'
    const traced = ['-f', '-e', 'trace=/rename,/unlink,copy_file_range', 'sh', '-ec', moves]
    const { stderr } = await execa('strace', traced, { cwd: drive.path })
    expect(stderr).toContain('renameat2')
    expect(stderr).not.toMatch(/EXDEV|copy_file_range|unlink/)
    await plain(moves)
    await compare('plain', 'drive')
    expect(await drive.sh('readlink B/sub/up B/l')).toBe('../f1\nf1\n')
  })

  it('within a folder, a link that would leave it stays, also one that nobody has looked at', async () => {
    await plain('mkdir -p A/in/t; ln -s ../../f1 A/in/t/up; ln -s ../f1 A/in/l')
    await given()
    const check = async (): Promise<void> => {
      expect((await drive.fails('mv A/in/t A/t')).stderr).toContain('not permitted')
      expect((await drive.fails('mv A/in/l A/l')).stderr).toContain('not permitted')
      await compare('plain', 'drive')
    }
    await check()
    await drive.leave()
    drive = await bench.mount('--folder-settle', '1h')
    await check()
    const moves = 'mv A/in/t/up A/sub/deep/up; mv A/in/l A/in/k; mv A/in A/new; mv A/new/k A/sub/k'
    await drive.sh(moves)
    await plain(moves)
    await compare('plain', 'drive')
    await drive.leave()
    await unpackFolder(bench.service, 'A', join(bench.dir, 'unpacked'))
    await compare('plain/A', 'unpacked')
  })

  it('open files go along', async () => {
    await plain('mkdir D D/d; for i in a d/b d/c e; do echo "in $i" > D/$i; done')
    await given()
    const calls = OPEN_MOVES.map((each) => `move(*${JSON.stringify(each)})`).join('\n')
    const program = `${PYTHON}
def move(old, new, file='', new_file=None):
    path, to = (old + '/' + file, new + '/' + file) if file else (old, new)
    was = open(path, 'rb').read()
    w, r = os.open(path, os.O_RDWR), os.open(path, os.O_RDONLY)
    a = os.open(path, os.O_WRONLY | os.O_APPEND)
    os.write(w, b'>')
    rename(old, new)
    assert not os.path.exists(path)
    now = b'>' + was[1:]
    assert os.pread(r, 1000000, 0) == now
    os.pwrite(w, b'AFTER', 1); os.write(a, b'end')
    now = b'>AFTER' + now[6:] + b'end'
    assert os.pread(r, 1000000, 0) == now == open(to, 'rb').read()
    os.ftruncate(w, len(now) - 1)
    os.fsync(w)
    for fd in (w, r, a): os.close(fd)
    assert open(to, 'rb').read() == now[:-1]
${calls}`
    for (const dir of ['plain', 'drive']) {
      await execa('python3', ['-c', program], { cwd: join(bench.dir, dir) })
    }
    const same = ['-r', '--no-dereference', 'plain', 'drive']
    await execa('diff', same, { cwd: bench.dir })
    await drive.leave()
    drive = await bench.mount()
    await execa('diff', same, { cwd: bench.dir })
  })

  it('a kill leaves a move at the old place and the new one, or at the new one', async () => {
    await Promise.all(CRASHES.map((each) => crash(each)))
  })

  it('a file that is stored, or whose folder is, goes all the same', async () => {
    drive = await bench.mount('--write-back', '--folder-settle', '50ms', '--listing-ttl', '100ms')
    const python = (program: string): Promise<string> =>
      drive.sh(`python3 -c '${PYTHON}${program}'`)
    await python(
      'mkdir("F")\nfor i in range(60):\n  open("r", "w").write(str(i))\n  rename("r", f"F/f{i}")',
    )
    expect(await drive.sh('ls F | wc -l; ls')).toBe('60\nF\n')
    await drive.leave()
    drive = await bench.mount('--folder-settle', '50ms')
    const match = { method: 'POST', path: /files\/upload/ }
    bench.service.proxy.add({ match, fault: { latencyMs: 1_500 } })
    await drive.sh('echo new > F/new')
    await python('rename("F/new", "new")\nrename("F/f1", "f1")')
    expect(await drive.sh('ls; ls F | wc -l; cat new f1')).toBe('F\nf1\nnew\n59\nnew\n1')
    await drive.leave()
    expect((await bench.service.list()).map(({ filename }) => filename).sort()).toEqual([
      'F',
      'f1',
      'new',
    ])
  })
})

/** Kills the drive while it moves something that is stored, and looks at what the next mount shows. */
async function crash({ from, to, step, args = [] }: Crash): Promise<void> {
  const bench = await Bench.start()
  try {
    const plain = join(bench.dir, 'plain')
    mkdirSync(plain)
    await execa('bash', ['-ec', GIVEN], { cwd: plain })
    const drive = await bench.mountKilledAt(step, '--folder-settle', '50ms', ...args)
    await drive.sh('cp -a ../plain/. .')
    await expect.poll(() => bench.service.list()).toHaveLength(4)
    await drive.fails(`mv ${from} ${to}`)
    await drive.ended()
    expect(drive.process.signalCode).toBe('SIGKILL')
    await drive.kill()
    const after = await bench.mount('--folder-settle', '50ms', ...args)
    // Never half of it at the new place, and never neither.
    const same = ['-r', '--no-dereference', `plain/${from}`]
    await execa('diff', [...same, `drive/${to}`], { cwd: bench.dir })
    if (step === 'move.removed') await after.fails(`stat ${from}`)
    else await execa('diff', [...same, `drive/${from}`], { cwd: bench.dir })
    await after.leave()
    const names = (await bench.service.list()).map(({ filename }) => filename)
    expect(new Set(names).size).toBe(names.length)
  } finally {
    await bench.close()
  }
}
