import { createHash } from 'node:crypto'
import { chmodSync, chownSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { execa } from 'execa'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { canActAsOther } from '../support/fuse.ts'
import { Bench, type MountedDrive } from '../support/mounted-drive.ts'
import { asOther, OTHER_UID } from '../support/other-user.ts'
import { unpackFolder } from '../support/unpacked.ts'

/** A zip with what another client may store: everything open to all users, and a link that leads out. */
const OPEN_ZIP = `
import io, sys, zipfile
out = io.BytesIO()
with zipfile.ZipFile(out, 'w') as z:
    for name, mode, data in (('d/', 0o040777, ''), ('d/file', 0o100666, 'theirs'), ('kept', 0o100666, 'theirs'),
                             ('out', 0o120777, '/etc/passwd'), ('in', 0o120777, 'kept')):
        info = zipfile.ZipInfo(name, (2024, 1, 2, 3, 4, 6))
        info.create_system, info.external_attr = 3, mode << 16
        z.writestr(info, data)
sys.stdout.buffer.write(out.getvalue())`

/** Owners, all mode bits, times with a fraction and of before 1970. */
const MAKE_OWNED = `umask 0; mkdir -p $1/d/inner; echo content > $1/file; echo deep > $1/d/inner/deep; ln -s file $1/link
chown -h 77:88 $1/link; chown 1234:4321 $1/file; chown -R 55:66 $1/d; chmod 4751 $1/file; chmod 3777 $1/d
touch -h -d '2001-01-01 00:00:00.5 UTC' $1/link $1/d/inner/deep $1/d/inner $1/d
touch -d '1969-07-20 20:17:40.123456 UTC' $1/file`

/** Changes whatever it can, and prints what it changed. */
const TRY_ALL = `find . -mindepth 1 -path './.*' -prune -o -print | while read -r each; do
  if [ -d "$each" ]; then mkdir "$each/from-other" 2>/dev/null && echo "made in $each"; fi
  if [ -f "$each" ] && [ ! -L "$each" ]; then (echo other >> "$each") 2>/dev/null && echo "wrote $each"; fi
  chmod 777 "$each" 2>/dev/null && echo "chmod $each"
done
(echo other > new) 2>/dev/null && echo 'made new'; true`

describe.runIf(canActAsOther())('other users of the machine, with --allow-other', () => {
  let bench: Bench
  let drive: MountedDrive
  beforeEach(async () => {
    bench = await Bench.start()
    // The way to the mountpoint is open; everything else in it is not looked at here.
    chmodSync(bench.dir, 0o755)
    const { stdout } = await execa('python3', ['-c', OPEN_ZIP], { encoding: 'buffer' })
    await bench.service.upload('Theirs', Buffer.from(stdout))
    await bench.service.upload('theirs.txt', 'theirs')
  })
  afterEach(async () => {
    await bench.close()
  })

  const mount = async (...args: readonly string[]): Promise<void> => {
    drive = await bench.mount('--allow-other', '--folder-settle', '1h', ...args)
  }
  const everything = "find . -path './.*' -prune -o ! -type l -printf '%m %P\\n' | sort -k 2"

  it('read what --umask lets them, and change nothing, wherever it is and whoever made it', async () => {
    await mount()
    // Programs with a umask of their own that takes nothing away.
    await drive.sh(
      `umask 0; echo ours > ours.txt; mkdir Ours; echo ours > Ours/file; mkdir Ours/d; echo ours > Ours/d/deep
      install -m 777 Ours/file Ours/run; chmod 666 Ours/file ours.txt; chmod 777 Ours Ours/d; chmod 666 theirs.txt
      ln -s file Ours/link; echo ours >> Theirs/d/file; chmod a+rwx Theirs/d; mkdir -m 777 Theirs/new`,
    )
    expect(await drive.sh(everything)).toBe(
      `755 
755 Ours
755 Ours/d
644 Ours/d/deep
644 Ours/file
755 Ours/run
755 Theirs
755 Theirs/d
644 Theirs/d/file
644 Theirs/kept
755 Theirs/new
644 Theirs/out
644 ours.txt
644 theirs.txt
`,
    )
    expect(await asOther('cat ours.txt Ours/link Theirs/in', { cwd: drive.path })).toMatchObject({
      said: 'ours\nours\ntheirs',
    })
    expect((await asOther(TRY_ALL, { cwd: drive.path })).said).toBe('')
    expect((await bench.bagfs(['sync', drive.path])).code).toBe(0)
    const modesIn = async (name: string): Promise<string> => {
      const target = join(bench.dir, name)
      await unpackFolder(bench.service, name, target)
      const command = `umask 0; find -mindepth 1 ! -type l -printf '%m %P\\n' | sort -k 2`
      return (await execa('bash', ['-c', command], { cwd: target })).stdout
    }
    expect(await modesIn('Ours')).toBe('755 d\n644 d/deep\n644 file\n755 run')
    // A mode that nothing set here stays as another client stored it.
    expect(await modesIn('Theirs')).toBe('755 d\n666 d/file\n666 kept\n755 new')
    await drive.leave()
    await mount('--umask', '077')
    const shown = (await drive.sh(everything)).trim().split('\n')
    expect(shown.filter((line) => !/^[67]00 ?/.test(line))).toEqual([])
    expect((await asOther(`ls ${drive.path}`)).said).toContain('Permission denied')
    await drive.leave()
    // The same tries do find what is open to others.
    await mount('--umask', '0')
    const changed = (await asOther(TRY_ALL, { cwd: drive.path })).said.split('\n').sort()
    expect(changed).toEqual(['made new', 'wrote ./Theirs/d/file', 'wrote ./Theirs/kept'])
  })

  it('are told the name and the icon of the drive, as --umask lets them, and nothing else of what it makes up', async () => {
    const look = 'cat .xdg-volume-info; cat .bagfs/status; ls .bags'
    await mount()
    const { said } = await asOther(look, { cwd: drive.path })
    expect(said).toContain('Icon=folder-remote')
    expect(said.match(/Permission denied/g)).toHaveLength(2)
    await drive.leave()
    await mount('--umask', '066')
    expect((await asOther(look, { cwd: drive.path })).said).not.toContain('Icon=')
  })

  it('are given files by root, which tar, cp -a and rsync -a keep, over a new mount too', async () => {
    await mount('--umask', '000')
    const from = join(bench.dir, 'from')
    await execa('sh', ['-euc', MAKE_OWNED, '-', from])
    const list = "find . -mindepth 1 -printf '%m %U:%G %T@ %y %P\\n' | sort -k 5"
    const { stdout: made } = await execa('sh', ['-c', list], { cwd: from })
    await drive.sh(
      `mkdir A B C; cp -a ${from}/. A; rsync -a ${from}/ B; tar -C ${from} --format=posix -c . | tar -C C -xp
      cp -a ${from}/file root.txt`,
    )
    const check = async (): Promise<void> => {
      for (const folder of ['A', 'B', 'C']) {
        expect(await drive.sh(`cd ${folder}; ${list}`)).toBe(`${made}\n`)
      }
      expect(await drive.sh('stat -c "%a %u:%g" root.txt')).toBe('4751 1234:4321\n')
    }
    await check()
    await drive.leave()
    await mount('--umask', '000')
    await check()
  })

  it('own what they make', async () => {
    await mount('--umask', '000')
    await drive.sh('mkdir -m 777 F')
    await asOther('echo mine > F/file; mkdir F/d; ln -s file F/link', { cwd: drive.path })
    const owner = `${OTHER_UID}:${OTHER_UID}\n`
    expect(await drive.sh('stat -c %u:%g F/file F/d F/link')).toBe(owner.repeat(3))
    await asOther('chmod 600 F/file', { cwd: drive.path })
    expect(await drive.sh('stat -c %a F/file')).toBe('600\n')
  })

  it('let a mode that is set again make no new upload', async () => {
    await mount()
    await drive.sh('umask 0; mkdir F; echo a > F/a; chmod 666 F/a')
    expect((await bench.bagfs(['sync', drive.path])).code).toBe(0)
    bench.service.forgetEvents()
    await drive.sh('chmod 666 F/a; chmod 644 F/a')
    expect((await bench.bagfs(['sync', drive.path])).code).toBe(0)
    expect(bench.service.uploads()).toEqual([])
  })
})

describe.runIf(canActAsOther())(
  'a state directory that other users of the machine can change',
  () => {
    let bench: Bench
    beforeEach(async () => {
      bench = await Bench.start()
      chmodSync(bench.dir, 0o755)
    })
    afterEach(async () => {
      await bench.close()
    })

    it('is refused with the command that mends it, and no log is written through a link', async () => {
      const victim = join(bench.dir, 'victim')
      writeFileSync(victim, 'precious')
      chmodSync(bench.stateDir, 0o777)
      const plant = `mkdir logs; chmod 777 logs; ln -s ${victim} logs/${logNameOf(bench.mountpoint)}`
      expect(await asOther(plant, { cwd: bench.stateDir })).toMatchObject({ code: 0 })
      const open = await bench.mountBy()
      expect(open).toMatchObject({
        code: 2,
        stderr: expect.stringContaining('chmod go-w') as string,
      })
      chmodSync(bench.stateDir, 0o755)
      const foreign = await bench.mountBy()
      expect(foreign.code).toBe(2)
      expect(foreign.stderr).toContain(`${bench.stateDir}/logs belongs to another user`)
      chownSync(join(bench.stateDir, 'logs'), 0, 0)
      chmodSync(join(bench.stateDir, 'logs'), 0o700)
      const linked = await bench.mountBy()
      expect(linked.code).toBe(2)
      expect(linked.stderr).toContain('is a link of another user')
      expect(readFileSync(victim, 'utf8')).toBe('precious')
      rmSync(join(bench.stateDir, 'logs'), { recursive: true })
      expect((await bench.mountBy()).code).toBe(0)
    })
  },
)

/** As the log of a background mount is called. */
function logNameOf(mountpoint: string): string {
  const sum = createHash('sha256').update(mountpoint).digest('hex').slice(0, 8)
  return `${mountpoint.slice(1).replace(/[^\w.]+/g, '-')}-${sum}.log`
}
