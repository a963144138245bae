import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { canMount } from '../support/fuse.ts'
import { Bench, type MountedDrive } from '../support/mounted-drive.ts'

/** Prints directory, name and `d_type` of what readdir(3) tells of each directory. */
const DIRECTORY_TYPES = `
import ctypes, sys
libc = ctypes.CDLL(None)
libc.opendir.restype = libc.readdir.restype = ctypes.c_void_p
libc.readdir.argtypes = [ctypes.c_void_p]
for path in sys.argv[1:]:
    directory, lines = libc.opendir(path.encode()), []
    while entry := libc.readdir(directory):
        kind = ctypes.c_ubyte.from_address(entry + 18).value
        lines.append((ctypes.string_at(entry + 19).decode(), kind))
    for name, kind in sorted(lines):
        if name not in (".", ".."): print(path, name, kind)
`

describe.runIf(canMount())('folders of a mounted drive', () => {
  let bench: Bench
  let drive: MountedDrive
  let outside: string
  beforeEach(async () => {
    bench = await Bench.start()
    outside = join(bench.dir, 'outside')
    mkdirSync(outside)
  })
  afterEach(async () => {
    await bench.close()
  })

  const mount = async (...args: string[]): Promise<void> => {
    drive = await bench.mount('--listing-ttl', '50ms', '--folder-settle', '200ms', ...args)
  }

  /** What the service has for a folder, unpacked to a plain directory. */
  const unpacked = async (name: string): Promise<string> => {
    const zip = join(bench.dir, 'unpacked.zip')
    const target = join(bench.dir, 'unpacked')
    rmSync(target, { recursive: true, force: true })
    writeFileSync(zip, await bench.service.contentOf(name))
    mkdirSync(target)
    execFileSync('python3', [
      '-c',
      `import subprocess,sys; subprocess.run(['unzip','-qq','-o',sys.argv[1],'-d',sys.argv[2]],check=False)`,
      zip,
      target,
    ])
    return target
  }

  const uploadedFolders = (): readonly string[] =>
    bench.service.events
      .filter(({ path, status }) => path === '/api/folders/upload' && status === 200)
      .map(({ name }) => name ?? '')

  it('a new folder with files is one upload, byte for byte', async () => {
    await mount('--folder-settle', '1h')
    await drive.sh(
      'mkdir F; mkdir -p F/a/b; for i in $(seq 50); do echo $i > F/a/f$i; done; echo deep > F/a/b/x; ln -s a/f1 F/link; chmod 750 F/a/f1',
    )
    await drive.sh('cp -a F ../outside/plain')
    expect(await bench.bagfs(['sync', drive.path])).toMatchObject({ code: 0 })
    expect(uploadedFolders()).toHaveLength(1)
    const target = await unpacked('F')
    await drive.sh(`diff -r --no-dereference ../outside/plain ${target}`)
    expect(await drive.sh(`stat -c %a ${target}/a/f1; readlink ${target}/link`)).toBe('750\na/f1\n')
    expect(await drive.sh('cat F/link F/a/b/x; ls F/a | wc -l')).toBe('1\ndeep\n51\n')
    await drive.leave()
    expect(uploadedFolders()).toHaveLength(1)
    expect((await bench.service.list()).map(({ filename }) => filename)).toEqual(['F'])
  })

  it('files with the names of litter are stored with the folder, and kept, like all others', async () => {
    await mount()
    const names = ['.DS_Store', '._a', '.hidden', '4913', 'desktop.ini', 'Thumbs.db', '.a.swp']
    await drive.sh(`mkdir -p F/sub; for n in ${names.join(' ')}; do echo $n > F/sub/$n; done`)
    expect(await bench.bagfs(['sync', drive.path])).toMatchObject({ code: 0 })
    const target = await unpacked('F')
    expect(await drive.sh(`diff -r F ${target} && ls -A F/sub | wc -l`)).toBe(`${names.length}\n`)
    await drive.sh('echo kept > F/plain; mv F/plain F/.directory')
    await drive.leave()
    await mount()
    expect(await drive.sh('cat F/.directory; ls -A F/sub | wc -l')).toBe(`kept\n${names.length}\n`)
  })

  it('readdir tells the kinds, so that find need not ask for each file', async () => {
    await mount()
    await drive.sh('mkdir -p F/sub; echo one > F/one.txt; ln -s one.txt F/link; echo a > plain')
    const lines = await drive.sh(`python3 -c '${DIRECTORY_TYPES}' . F .bagfs`)
    expect(lines.trim().split('\n')).toEqual([
      ...['. F 4', '. plain 8'],
      ...['F link 10', 'F one.txt 8', 'F sub 4'],
      ...['.bagfs outbox 4', '.bagfs status 8', '.bagfs status.json 8', '.bagfs trash 4'],
    ])
  })

  it('shows a folder bag of somebody else as a directory, also under NAME.zip', async () => {
    await mount()
    await drive.sh(
      'mkdir Seed; echo one > Seed/one.txt; mkdir Seed/sub; echo two > Seed/sub/two.txt',
    )
    await drive.leave()
    const zip = await bench.service.contentOf('Seed')
    await bench.service.delete((await bench.service.list())[0]?.bag_id ?? '')
    rmSync(join(bench.dir, 'state'), { recursive: true })
    await bench.service.upload('Unknown', zip)
    await bench.service.upload('stays.zip', zip)
    await mount()
    expect(await drive.sh('ls -F')).toBe('Unknown/\nstays.zip\n')
    expect(await drive.sh('cat Unknown/one.txt Unknown/sub/two.txt; find Unknown | sort')).toBe(
      'one\ntwo\nUnknown\nUnknown/one.txt\nUnknown/sub\nUnknown/sub/two.txt\n',
    )
    await drive.sh('setfattr -n user.bagfs.kind -v folder stays.zip')
    await expect.poll(() => drive.sh('ls -F')).toBe('Unknown/\nstays/\n')
    expect(await drive.sh('cat stays/one.txt')).toBe('one\n')
  })

  it('changes inside become one new bag, and the old one goes', async () => {
    await mount('--folder-settle', '1h')
    const sync = async (): Promise<void> => {
      expect((await bench.bagfs(['sync', drive.path])).code).toBe(0)
    }
    await drive.sh('mkdir F; echo a > F/a; echo b > F/b; mkdir F/d; echo c > F/d/c')
    await sync()
    expect(uploadedFolders()).toHaveLength(1)
    bench.service.forgetEvents()
    await drive.sh(
      'echo more >> F/a; rm F/b; mv F/d/c F/e; mkdir F/n; mv F/n F/m; echo new > F/m/new',
    )
    await sync()
    expect(uploadedFolders()).toHaveLength(1)
    await expect.poll(() => bench.service.deletes()).toBe(1)
    const target = await unpacked('F')
    expect(await drive.sh(`cd ${target} && find . | sort && cat a e m/new`)).toBe(
      '.\n./a\n./d\n./e\n./m\n./m/new\na\nmore\nc\nnew\n',
    )
    expect(await drive.sh('find F | sort; cat F/a F/e F/m/new')).toBe(
      'F\nF/a\nF/d\nF/e\nF/m\nF/m/new\na\nmore\nc\nnew\n',
    )
  })

  it('lists what user.bagfs attributes it has, and takes the kind that it is before it is stored', async () => {
    await mount('--folder-settle', '1h')
    await drive.sh('mkdir F; echo x > F/x')
    const names = (path: string): Promise<string> =>
      drive.sh(`getfattr ${path} | grep ^user | sort | tr '\\n' ' '`)
    expect(await names('F')).toBe('user.bagfs.description user.bagfs.kind user.bagfs.state ')
    expect(await names('F/x || true')).toBe('')
    await drive.sh('setfattr -n user.bagfs.kind -v folder F')
    expect((await drive.fails('setfattr -n user.bagfs.kind -v file F')).stderr).toContain('busy')
    await bench.bagfs(['sync', join(bench.mountpoint, 'F')])
    expect(await names('F')).toContain('user.bagfs.bag_id ')
  })

  it('an empty folder stays here, and rm -rf of a stored one is one DELETE', async () => {
    await mount()
    await drive.sh('mkdir Empty')
    expect(await drive.sh('getfattr --only-values -n user.bagfs.state Empty')).toBe('local only')
    await drive.sh('mkdir Full; for i in $(seq 20); do echo $i > Full/$i; done')
    await expect.poll(uploadedFolders).toEqual(['Full.zip'])
    bench.service.forgetEvents()
    await drive.sh('rm -rf Full')
    await expect.poll(() => bench.service.deletes()).toBe(1)
    expect(uploadedFolders()).toEqual([])
    await drive.leave()
    await mount()
    expect(await drive.sh('ls -F; rmdir Empty; ls')).toBe('Empty/\n')
    await drive.leave()
    expect(await bench.service.list()).toEqual([])
  })

  it('changes survive kill -9 and are sent by the next mount', async () => {
    await mount('--folder-settle', '1h')
    await drive.sh(
      'mkdir F; echo kept > F/kept; mkdir F/d; echo x > F/d/x; mv F/d/x F/y; echo more >> F/kept',
    )
    await drive.kill()
    await mount()
    expect(await drive.sh('find F | sort; cat F/kept F/y')).toBe(
      'F\nF/d\nF/kept\nF/y\nkept\nmore\nx\n',
    )
    await expect.poll(uploadedFolders).toHaveLength(1)
    await drive.leave()
    const target = await unpacked('F')
    expect(readFileSync(join(target, 'kept'), 'utf8')).toBe('kept\nmore\n')
  })

  it('renames of folders, and moves between folders and the root', async () => {
    await mount()
    await drive.sh('mkdir A B; echo 1 > A/one; echo 2 > B/two; echo r > root.txt')
    await expect.poll(uploadedFolders).toHaveLength(2)
    await drive.sh('mv A C; mv C/one B/; mv root.txt B/r; mv B/two two.txt; mkdir C/s; mv C/s B/s')
    expect(await drive.sh('find . -type f -o -type d | sort')).toBe(
      '.\n./B\n./B/one\n./B/r\n./B/s\n./C\n./two.txt\n',
    )
    await drive.leave()
    const names = (await bench.service.list()).map(({ filename }) => filename).sort()
    expect(names).toEqual(['B', 'two.txt'])
    expect(await drive.sh(`cd ${await unpacked('B')} && find . | sort`)).toBe(
      '.\n./one\n./r\n./s\n',
    )
  })

  it('git, tar and rsync work inside a folder', async () => {
    await mount()
    await drive.sh(
      'mkdir -p ../outside/src/sub; for i in $(seq 100); do echo $i > ../outside/src/f$i; done; echo s > ../outside/src/sub/s',
    )
    await drive.sh(
      'mkdir R; rsync -a ../outside/src/ R/src/; rsync -a --delete ../outside/src/ R/src/',
    )
    await drive.sh(
      `cd R && git init -q . && git -c user.name=a -c user.email=a@b add . && git -c user.name=a -c user.email=a@b commit -qm one && git log --oneline | wc -l && git fsck && git gc -q && git status --short`,
    )
    await drive.sh(
      'tar cf ../outside/t.tar -C ../outside src; mkdir T; tar xf ../outside/t.tar -C T; diff -r T/src ../outside/src',
    )
    await drive.leave()
    await drive.sh(`diff -r ../outside/src ${await unpacked('T')}/src`)
    await drive.sh(`cd ${await unpacked('R')} && git fsck && git status --short`)
  })

  it('keeps the time and mode of a folder itself, and tells of later changes', async () => {
    await mount()
    await drive.sh(
      'mkdir ../outside/src; echo a > ../outside/src/a; chmod 750 ../outside/src; touch -d 2021-01-02T03:04:05Z ../outside/src',
    )
    const told = (): Promise<string> => drive.sh('stat -c "%Y %a" F')
    const again = async (): Promise<void> => {
      await drive.leave()
      await mount()
    }
    await drive.sh('cp -a ../outside/src F')
    expect(await told()).toBe('1609556645 750\n')
    expect(await drive.sh('rsync -ani ../outside/src/ F/')).toBe('')
    await again()
    expect(await told()).toBe('1609556645 750\n')
    await drive.sh('echo b > F/b')
    const changed = await told()
    expect(Number(changed.split(' ')[0])).toBeGreaterThan(1_700_000_000)
    await again()
    expect(await told()).toBe(changed)
    await drive.sh('touch -d 2020-01-01T00:00:00Z F; rm F/b; touch -d 2021-01-02T03:04:05Z F')
    expect(await told()).toBe('1609556645 750\n')
  })

  it('sqlite3 works inside a folder', async () => {
    await mount()
    await drive.sh(
      'mkdir D; sqlite3 D/t.db "create table t(x); insert into t values(1);"; for i in 1 2 3; do sqlite3 D/t.db "insert into t values($i);"; done',
    )
    expect(await drive.sh('sqlite3 D/t.db "select count(*) from t"')).toBe('4\n')
    await drive.leave()
    expect(await drive.sh(`sqlite3 ${await unpacked('D')}/t.db "select count(*) from t"`)).toBe(
      '4\n',
    )
  })
})
