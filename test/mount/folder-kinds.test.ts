import { existsSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { execa } from 'execa'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { FileRecordWire } from '../../src/service/wire.ts'
import { deferred } from '../../src/domain/deferred.ts'
import { canMount } from '../support/fuse.ts'
import { Bench, type MountedDrive } from '../support/mounted-drive.ts'

describe.runIf(canMount())('a record whose kind is not known yet', () => {
  let bench: Bench
  let drive: MountedDrive
  let zip: Buffer
  beforeEach(async () => {
    bench = await Bench.start()
    const program =
      'import io, sys, zipfile; z = zipfile.ZipFile(f := io.BytesIO(), "w"); z.writestr("one.txt", "one"); z.writestr("sub/two.txt", "two"); z.close(); sys.stdout.buffer.write(f.getvalue())'
    const { stdout } = await execa('python3', ['-c', program], { encoding: 'buffer' })
    zip = Buffer.from(stdout)
    writeFileSync(join(bench.dir, 'zip'), zip)
  })
  afterEach(async () => {
    await bench.close()
  })

  /** A folder that the drive does not know yet, and whose head comes when what this answers is called. */
  const mountUnknown = async (): Promise<() => void> => {
    await bench.service.upload('Unknown', zip)
    const head = deferred()
    bench.service.proxy.add({
      match: { method: 'GET', path: /download/ },
      times: 1,
      fault: { before: () => head.promise },
    })
    drive = await bench.mount('--listing-ttl', '50ms')
    return head.resolve
  }
  const kindOf = (name: string): Promise<string> => drive.sh(`stat -c %F ${name}`)
  const isFolder = async (name: string): Promise<void> => {
    await expect.poll(() => kindOf(name)).toBe('directory\n')
    expect(await drive.sh(`ls -F; ls -lF | cut -c1; ls -F ${name}`)).toContain('one.txt\nsub/\n')
    expect(await drive.sh(`cd ${name}/sub; cat two.txt ../one.txt`)).toBe('twoone')
  }
  const isFile = async (name: string): Promise<void> => {
    await expect.poll(() => kindOf(name)).toBe('regular file\n')
    expect(await drive.sh(`ls -F; stat -c %s ${name}; cmp ${name} ../zip`)).toBe(
      `${name}\n${zip.length}\n`,
    )
    expect((await drive.fails(`ls ${name}/`)).stderr).toContain('Not a directory')
  }

  it('shows as a file at first, and is a directory for everybody once its head is here', async () => {
    const answer = await mountUnknown()
    expect(await drive.sh('ls -F; stat -c %F Unknown')).toBe('Unknown\nregular file\n')
    // The kernel has heard that it is a file, by its name and by its attributes.
    expect(await drive.sh('stat -c "%F %s" Unknown; ls -l | grep -c ^-r')).toBe(
      `regular file ${zip.length}\n1\n`,
    )
    answer()
    await isFolder('Unknown')
  })

  it('keeps ls waiting a moment only, also when there are 1,000 of them', async () => {
    await bench.close()
    const extraRecords = (): readonly FileRecordWire[] =>
      Array.from({ length: 1_000 }, (_, index) => ({
        filename: `bag ${index}`,
        size: 100,
        uploaded_at: 1_700_000_000,
        description: '',
        bag_id: index.toString(16).padStart(64, '0'),
      }))
    bench = await Bench.start({ extraRecords })
    const match = { method: 'GET', path: /download/ }
    bench.service.proxy.add({ match, fault: { silence: true } })
    drive = await bench.mount('--listing-ttl', '60s', '--timeout', '1h')
    // It would wait for an answer, and none comes.
    expect(await drive.sh('ls -l | wc -l')).toBe('1001\n')
    const probes = bench.service.proxy.requests.filter(({ path }) => match.path.test(path))
    expect(probes.length).toBeLessThan(20)
  })

  it('is never told as a directory by readdir while stat still tells a file', async () => {
    const answer = await mountUnknown()
    const program = `
import os, stat
def look():
    told = next(os.scandir('.')).is_dir(follow_symlinks=False)
    return told, stat.S_ISDIR(os.lstat('Unknown').st_mode)
assert look() == (False, False)
open('../looked', 'w').close()
while not (seen := look())[0]: pass
print(*seen)`
    // Beside the wait of the look-up the kernel remembers what it was told for another second.
    const seen = drive.sh(`python3 -c "${program}"`)
    await expect.poll(() => existsSync(join(bench.dir, 'looked'))).toBe(true)
    answer()
    expect(await seen).toBe('True True\n')
  })

  it('goes from file to folder and back as the user says', async () => {
    await bench.service.upload('it.zip', zip)
    drive = await bench.mount('--listing-ttl', '50ms')
    await isFile('it.zip')
    await drive.sh('setfattr -n user.bagfs.kind -v folder it.zip')
    await isFolder('it')
    expect((await drive.fails('stat it.zip')).stderr).toContain('No such file')
    await drive.sh('setfattr -n user.bagfs.kind -v file it')
    await isFile('it.zip')
    expect((await drive.fails('stat it')).stderr).toContain('No such file')
    await drive.leave()
    await bench.service.delete((await bench.service.list())[0]?.bag_id ?? '')
    await bench.service.upload('plain', zip)
    drive = await bench.mount('--listing-ttl', '50ms')
    await isFolder('plain')
    await drive.sh('setfattr -n user.bagfs.kind -v file plain')
    await isFile('plain')
    await drive.sh('setfattr -n user.bagfs.kind -v folder plain')
    await isFolder('plain')
    expect(bench.service.uploads()).toHaveLength(2)
  })

  it('is no file to whoever changes it before its head is here', async () => {
    const names = ['Moved', 'Written', 'Removed', 'Replaced', 'Inside']
    for (const name of names) await bench.service.upload(name, zip)
    drive = await bench.mount('--listing-ttl', '50ms', '--folder-settle', '50ms')
    await drive.sh('mkdir F; echo f > f.txt; echo g > F/g')
    await drive.leave()
    rmSync(bench.stateDir, { recursive: true })
    bench.service.proxy.add({
      match: { method: 'GET', path: /download/ },
      fault: { latencyMs: 3_000 },
    })
    drive = await bench.mount('--listing-ttl', '50ms', '--folder-settle', '50ms')
    const isRefused = async (command: string): Promise<void> => {
      expect((await drive.fails(command)).stderr).toContain('Is a directory')
    }
    await Promise.all([
      drive.sh('mv Moved Other'),
      isRefused('echo x > Written'),
      isRefused('rm Removed'),
      isRefused("python3 -c \"import os; os.rename('f.txt', 'Replaced')\""),
    ])
    bench.service.proxy.clear()
    const shown = 'F/\nInside/\nOther/\nRemoved/\nReplaced/\nWritten/\nf.txt\n'
    await expect.poll(() => drive.sh('ls -F')).toBe(shown)
    expect(await drive.sh('cat */one.txt; mv Inside F/in; cat F/in/sub/two.txt')).toBe(
      `${'one'.repeat(5)}two`,
    )
    await drive.leave()
    rmSync(bench.stateDir, { recursive: true })
    drive = await bench.mount()
    expect(await drive.sh('cat Other/one.txt F/in/one.txt')).toBe('oneone')
  })
})
