import { mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { execa } from 'execa'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { canMount } from '../support/fuse.ts'
import { Bench, type MountedDrive } from '../support/mounted-drive.ts'
import { unpackFolder } from '../support/unpacked.ts'

const TREE =
  'mkdir -p src/a/b/c src/empty; for i in $(seq 60); do echo "file $i" > src/f$i; done; head -c 400000 /dev/urandom > src/a/big; echo deep > src/a/b/c/deep; ln -s b/c/deep src/a/link; chmod 750 src/f1; chmod 600 src/f2; touch -d 2024-02-03T04:05:06 src/f3 src/a/big'
const GIT = 'git -c user.name=a -c user.email=a@b -c init.defaultBranch=main'

/** Each is run in a folder of the drive and in a plain directory; `../src` is the tree above. */
const PROGRAMS: readonly {
  readonly title: string
  readonly command: string
  /** Times cannot be compared: tar sets only one of a file's two, which the FUSE library does not hand on. */
  readonly timeless?: boolean
}[] = [
  {
    title: 'rsync -a --delete',
    command:
      'rsync -a ../src/ t/; echo x > t/extra; rm t/f5; rsync -a --delete --checksum ../src/ t/',
  },
  { title: 'tar x', command: 'tar c -C ../src . | tar x', timeless: true },
  {
    title: 'unzip',
    command: '(cd ../src; zip -qry $OLDPWD/src.zip .); unzip -q src.zip; rm src.zip',
  },
  {
    title: 'a C build',
    command:
      'printf "int f(void);int main(void){return f();}" > main.c; printf "int f(void){return 0;}" > f.c; printf "p: main.o f.o\\n\\tcc -o p main.o f.o\\n" > Makefile; make -s; ./p; rm -f *.o',
  },
  {
    title: 'a tree as npm installs it',
    command:
      'mkdir -p node_modules/.bin node_modules/tool/bin; echo "#!/bin/sh" > node_modules/tool/bin/t.sh; chmod 755 node_modules/tool/bin/t.sh; ln -s ../tool/bin/t.sh node_modules/.bin/t; mv node_modules/tool node_modules/.tool-x; mv node_modules/.tool-x node_modules/tool; node_modules/.bin/t',
  },
  {
    title: 'npm install of a package',
    command:
      'echo \'{"name":"user","version":"1.0.0"}\' > package.json; mkdir ../src/tool; (cd ../src/tool; echo \'{"name":"tool","version":"1.2.3","bin":"t.sh"}\' > package.json; printf "#!/bin/sh\\necho works\\n" > t.sh); cache=$(mktemp -d); tool=$(cd ../src/tool; npm pack -s --pack-destination $cache); cp $cache/$tool .; npm install -s --offline --no-audit --no-fund --cache $cache ./$tool; rm -r $cache ../src/tool; [ $(node_modules/.bin/tool) = works ]',
  },
  {
    title: 'mv of subtrees',
    command:
      'cp -a ../src/. .; mv a/b moved; mv moved/c a/; mkdir z; mv a z/; mv z/a/c .; rmdir moved',
  },
  {
    title: 'editors',
    command:
      'cp -a ../src/. .; sed -i s/file/line/ f1 f4; vim -es -u NONE -c "set backup backupcopy=no writebackup" -c "%s/deep/vim/" -c "wq" a/b/c/deep; rm -f a/b/c/deep~',
  },
]

describe.runIf(canMount())('programs inside a folder', () => {
  let bench: Bench
  let drive: MountedDrive
  beforeEach(async () => {
    bench = await Bench.start()
    for (const dir of ['outside', 'unpacked']) mkdirSync(join(bench.dir, dir))
    await plain(`cd ..; ${TREE}; mkdir plain`)
  })
  afterEach(async () => {
    await bench.close()
  })

  const mount = async (...args: string[]): Promise<void> => {
    drive = await bench.mount('--listing-ttl', '50ms', '--folder-settle', '500ms', ...args)
  }
  const plain = (command: string) =>
    execa('bash', ['-ec', command], { cwd: join(bench.dir, 'outside') })
  const folderUploads = (): number =>
    bench.service.events.filter(
      ({ path, status }) => path === '/api/folders/upload' && status === 200,
    ).length

  /** Names, types, modes, link texts and contents; times in seconds of the files named. */
  const compare = async (one: string, other: string, times = 'f3 a/big'): Promise<void> => {
    const options = { cwd: bench.dir }
    await execa('diff', ['-r', '--no-dereference', one, other], options)
    const list = `find . -mindepth 1 -printf '%P %y %m %l\\n' | sort; for f in ${times}; do if [ -e $f ]; then stat -c '%n %Y' $f; fi; done`
    const [a, b] = await Promise.all(
      [one, other].map((dir) => execa('bash', ['-ec', `cd ${dir}; ${list}`], options)),
    )
    expect(b?.stdout).toBe(a?.stdout)
  }

  it('cp -a of 500 files is one upload, rm -rf one DELETE', async () => {
    await plain('cd ..; mkdir many; for i in $(seq 500); do echo "$i $i" > many/f$i; done')
    await mount('--folder-settle', '1h')
    await drive.sh('cp -a ../many F')
    expect(await bench.bagfs(['sync', drive.path])).toMatchObject({ code: 0 })
    expect(folderUploads()).toBe(1)
    await drive.leave()
    expect(folderUploads()).toBe(1)
    await unpackFolder(bench.service, 'F', join(bench.dir, 'unpacked'))
    await compare('many', 'unpacked')
    bench.service.forgetEvents()
    await mount('--folder-settle', '1h')
    await drive.sh('rm -rf F')
    await drive.leave()
    expect(bench.service.deletes()).toBe(1)
    expect(folderUploads()).toBe(0)
    expect(await bench.service.list()).toEqual([])
  })

  it.each(PROGRAMS)('$title', async ({ command, timeless }) => {
    const times = timeless === true ? '' : 'f3 a/big'
    await mount()
    await plain(`cd ../plain; ${command}`)
    await drive.sh(`mkdir F; cd F; ${command.replaceAll('../src', '../../src')}`)
    await compare('plain', 'drive/F', times)
    await drive.leave()
    await unpackFolder(bench.service, 'F', join(bench.dir, 'unpacked'))
    await compare('plain', 'unpacked', times)
    // All that is shown now comes out of the service's zip.
    rmSync(bench.stateDir, { recursive: true })
    await mount()
    await compare('plain', 'drive/F', times)
  })

  it('git clone and gc', async () => {
    await plain(`cd ../src; ${GIT} init -q; ${GIT} add .; ${GIT} commit -qm one`)
    await mount()
    await drive.sh(
      `mkdir F; cd F; ${GIT} clone -q --no-local ../../src c; cd c; echo x >> f1; ${GIT} commit -qam two; ${GIT} gc -q; ${GIT} fsck --strict; ${GIT} status --short`,
    )
    await drive.leave()
    await unpackFolder(bench.service, 'F', join(bench.dir, 'unpacked'))
    await execa('git', ['fsck', '--strict'], { cwd: join(bench.dir, 'unpacked/c') })
    const log = await execa('git', ['log', '--format=%s'], { cwd: join(bench.dir, 'unpacked/c') })
    expect(log.stdout).toBe('two\none')
    const status = await execa('git', ['status', '--short'], { cwd: join(bench.dir, 'unpacked/c') })
    expect(status.stdout).toBe('')
  })

  it('mv between folders and the root', async () => {
    await mount()
    await drive.sh('cp -a ../src A; mkdir B; echo b > B/b; mv A/a B/; mv A/f1 .; mv B/b A/')
    await plain('cd ../plain; cp -a ../src A; mkdir B; mv A/a B/; mv A/f1 .; echo b > A/b')
    await compare('plain/A', 'drive/A')
    await compare('plain/B', 'drive/B')
    await drive.leave()
    for (const name of ['A', 'B']) {
      await unpackFolder(bench.service, name, join(bench.dir, 'unpacked'))
      await compare(`plain/${name}`, 'unpacked')
    }
    expect((await bench.service.contentOf('f1')).toString()).toBe('file 1\n')
  })
})
