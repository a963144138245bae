import { readdirSync, readlinkSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { canMount } from '../support/fuse.ts'
import { Bench, type MountedDrive } from '../support/mounted-drive.ts'

/** BAGFS_SOAK_MINUTES=30 for a long one. */
const LONG_MS = Number(process.env['BAGFS_SOAK_MINUTES'] ?? 0) * 60_000
/** Beside that, on a machine that is busy. */
const SPARE_MS = 20 * 60_000
/** Until memory, caches and connections have what they keep: a heap is some minutes on the way to its size. */
const WARM_UP_ROUNDS = 6
const WARM_UP_MS = LONG_MS / 3
const ROUNDS = 18
/** What a heap that is not full may grow by between two collections. */
const MARGIN_BYTES = 48 * 1024 * 1024

/** Descriptors, with all connections that are kept. */
const MOST = 64

/** What programs do in a day; nothing of it is there afterwards. */
const ROUND = `
mkdir round; cd round
for i in $(seq 20); do echo "$i" > "f$i"; cat "f$i" > /dev/null; done
mkdir -p deep/er; cp f* deep; mv deep/f1 deep/er; mv deep other; ls -lR . > /dev/null
head -c 300000 /dev/urandom > large; dd if=/dev/zero of=large bs=1000 seek=90 count=9 conv=notrunc status=none
truncate -s 1000 large; chmod 600 large; touch -d 2020-01-01 large; ln -s large link; cat link > /dev/null
stat absent > /dev/null 2>&1 || true
exec 3<> held; rm held; echo more >&3; exec 3>&-
cd ..; for i in 1 2 3; do echo "$i" > "root$i"; mv "root$i" "moved$i"; done; cat moved*; find . > /dev/null
tar -cf - round | tar -xf - -C round/other; rm -rf round moved*
`

/**
 * What its descriptors lead to, but for databases and connections to the service. Databases open and close files as their sizes
 * have it, and some connections are kept for the next request.
 */
function descriptorsOf(drive: MountedDrive): readonly string[] {
  const dir = `/proc/${drive.process.pid ?? 0}/fd`
  return readdirSync(dir)
    .map((fd) => linkOf(`${dir}/${fd}`).replace(/\[\d+\]|\d+/g, ''))
    .filter((target) => !/\.(ldb|log)$|MANIFEST|^socket|^$/.test(target))
    .sort()
}

/** Empty for one that is closed meanwhile. */
function linkOf(path: string): string {
  try {
    return readlinkSync(path)
  } catch {
    return ''
  }
}

describe.runIf(canMount())('a drive that is used for long', () => {
  const timeout = LONG_MS + SPARE_MS
  it('holds no more memory, descriptors and files than at first', { timeout }, async () => {
    const bench = await Bench.start()
    try {
      const flags = ['--write-back', '--folder-settle', '100ms', '--keep-deleted', '0']
      const drive = await bench.mount(...flags)
      const doRounds = async (rounds: number): Promise<void> => {
        for (let round = 0; round < rounds; round += 1) await drive.sh(ROUND)
        expect((await bench.bagfs(['sync', bench.mountpoint])).stderr).toBe('')
      }
      const startedAtMs = Date.now()
      do await doRounds(WARM_UP_ROUNDS)
      while (Date.now() < startedAtMs + WARM_UP_MS)
      const before = { descriptors: descriptorsOf(drive), bytes: drive.residentBytes() }
      do await doRounds(ROUNDS)
      while (Date.now() < startedAtMs + LONG_MS)
      await expect.poll(() => descriptorsOf(drive), { timeout: 60_000 }).toEqual(before.descriptors)
      expect(readdirSync(`/proc/${drive.process.pid ?? 0}/fd`).length).toBeLessThan(MOST)
      expect(drive.residentBytes()).toBeLessThan(before.bytes + MARGIN_BYTES)
      expect(await drive.sh('ls -A')).toBe('')
      // What was deleted is remembered for as long as a listing may lag.
      const remembered = async (): Promise<readonly string[]> => {
        await drive.sh('ls')
        const all = readdirSync(bench.stateDir, { recursive: true, encoding: 'utf8' })
        return all.filter((path) => path.endsWith('intent.json'))
      }
      await expect.poll(remembered, { timeout: 60_000, interval: 200 }).toEqual([])
      expect(await bench.service.list()).toEqual([])
    } finally {
      await bench.close()
    }
  })
})
