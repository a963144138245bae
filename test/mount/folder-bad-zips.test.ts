import { join } from 'node:path'
import { execa } from 'execa'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { canMount } from '../support/fuse.ts'
import { Bench, type MountedDrive } from '../support/mounted-drive.ts'
import { unpackFolder } from '../support/unpacked.ts'

/** Python that makes a zip `z` from entries; `add(name, data, method)`, then bytes are changed in place. */
const HEAD = `
import io, sys, struct, zipfile, zlib
out = io.BytesIO()
z = zipfile.ZipFile(out, 'w')
def add(name, data, method=zipfile.ZIP_STORED):
    info = zipfile.ZipInfo(name, (2024, 1, 2, 3, 4, 6))
    info.compress_type = method
    z.writestr(info, data)
def link(name, target):
    info = zipfile.ZipInfo(name, (2024, 1, 2, 3, 4, 6))
    info.create_system, info.external_attr = 3, 0o120777 << 16
    z.writestr(info, target)
def heads(raw, name):
    """Offsets of the local and the central header of an entry."""
    name = name.encode()
    at = raw.rindex(name, 0, raw.rindex(b'PK\\x05\\x06'))
    local = raw.index(name)
    return local - 30, at - 46
`
const TAIL = 'sys.stdout.buffer.write(bytes(raw))'

/** The given lines of Python add entries, then change `raw`. */
async function makeZip(entries: string, change = ''): Promise<Buffer> {
  const program = `${HEAD}\n${entries}\nz.close()\nraw = bytearray(out.getvalue())\n${change}\n${TAIL}`
  const { stdout } = await execa('python3', ['-W', 'ignore', '-c', program], { encoding: 'buffer' })
  return Buffer.from(stdout)
}

const READ_TREE = `
import json, os
tree = {}
for at, directories, files in os.walk('.'):
    for name in files:
        path = os.path.join(at, name)
        tree[path[2:]] = '-> ' + os.readlink(path) if os.path.islink(path) else open(path).read()
print(json.dumps(tree))`
const TRY_TO_READ = `
import errno, sys
for path in sys.argv[1:]:
    try:
        open(path, 'rb').read(); print('read')
    except OSError as e: print(errno.errorcode[e.errno])`

/** A name of 300 bytes is cut to 255: what is left, and a code of 19 bytes. */
const LONGEST_CODED = 255 - Buffer.byteLength('‛~2c19f09126b9b235')

const GOOD = "add('good.txt', 'good')"

describe.runIf(canMount()).each([{ ranges: true }, { ranges: false }])(
  'hostile zips as folder bags, with ranges: $ranges',
  ({ ranges }) => {
    let bench: Bench
    let drive: MountedDrive
    beforeEach(async () => {
      bench = await Bench.start()
      if (!ranges) bench.service.proxy.add({ fault: { noRanges: true } })
    })
    afterEach(async () => {
      await bench.close()
    })

    /** Uploads the zip as Bad beside a plain file, mounts, and answers the bag id. */
    const given = async (zip: Buffer, ...args: string[]): Promise<string> => {
      await bench.service.upload('fine.txt', 'fine')
      const bagId = await bench.service.upload('Bad', zip)
      drive = await bench.mount('--listing-ttl', '50ms', ...args)
      return bagId
    }
    /** Files of the folder with their content, links with an arrow before theirs. */
    const readTree = async (): Promise<unknown> => JSON.parse(await python(READ_TREE)) as unknown
    /** What reading the files answers: `read`, or the name of the errno. */
    const tryToRead = async (...paths: readonly string[]): Promise<readonly string[]> =>
      (await python(TRY_TO_READ, ...paths)).split('\n')
    const python = async (program: string, ...args: readonly string[]): Promise<string> =>
      (await execa('python3', ['-c', program, ...args], { cwd: join(drive.path, 'Bad') })).stdout
    const restWorks = async (): Promise<void> => {
      expect(await drive.sh('cat fine.txt')).toBe('fine')
    }

    it('names never lead out of the folder, and each entry has one of its own', async () => {
      const zip = await makeZip(
        `${GOOD}
for name, data in [('../up', 'u'), ('/abs', 'a'), ('a/../../deep', 'd'), ('..', 'dots'), ('x' * 300, 'long'), ('twice', '1st'), ('twice', '2nd'), ('Case', 'A'), ('case', 'b'), ('d/' * 100 + 'e', '100'), ('empty', 'none'), ('cafX.txt', '437'), ('uniX', 'extra')]: add(name, data)
link('out', '../fine.txt'); link('in', 'good.txt'); link('abs', '/etc/passwd')`,
        `for at, place in zip(heads(raw, 'empty'), (26, 28)): raw[at + place:at + place + 4] = struct.pack('<HH', 0, 5)
for at, place in zip(heads(raw, 'cafX.txt'), (30, 46)): raw[at + place + 3] = 0x82
at = heads(raw, 'uniX')[1]
name = 'üni'.encode()
extra = struct.pack('<HHBI', 0x7075, 5 + len(name), 1, zlib.crc32(b'uniX')) + name
raw[at + 30:at + 32] = struct.pack('<H', len(extra))
raw[at + 50:at + 50] = extra
end = raw.rindex(b'PK\\x05\\x06'); size, = struct.unpack('<I', raw[end + 12:end + 16])
raw[end + 12:end + 16] = struct.pack('<I', size + len(extra))`,
      )
      await given(zip)
      expect(await drive.sh('ls -F')).toBe('Bad/\nfine.txt\n')
      expect(await readTree()).toEqual({
        'good.txt': 'good',
        // What is no name that can be is written in a code that leads back to it.
        '‛2E./up': 'u',
        '‛2E. (1)': 'dots',
        'a/‛2E./‛2E./deep': 'd',
        'abs (1)': 'a',
        '‛empty': 'none',
        [`${'x'.repeat(LONGEST_CODED)}‛~2c19f09126b9b235`]: 'long',
        'twice (1)': '1st',
        twice: '2nd',
        Case: 'A',
        case: 'b',
        [`${'d/'.repeat(100)}e`]: '100',
        'café.txt': '437',
        üni: 'extra',
        in: '-> good.txt',
        // Links that lead out are files with the text of the link.
        out: '../fine.txt',
        abs: '/etc/passwd',
      })
      await restWorks()
    })

    it('an entry that cannot be read is listed, and each reason has its errno', async () => {
      const bagId = await given(
        await makeZip(
          `${GOOD}
for kind, method, size in [('small', zipfile.ZIP_STORED, 20), ('deflated', zipfile.ZIP_DEFLATED, 600000), ('stored', zipfile.ZIP_STORED, 600000)]:
    for reason in ['secret', 'odd', 'crc']: add(f'{reason}-{kind}', 'abcdefghij' * (size // 10), method)`,
          `for kind in ['small', 'deflated', 'stored']:
    for at, flag in zip(heads(raw, f'secret-{kind}'), (6, 8)): raw[at + flag] |= 1
    for at, place in zip(heads(raw, f'odd-{kind}'), (8, 10)): raw[at + place] = 97
    for at, place in zip(heads(raw, f'crc-{kind}'), (14, 16)): raw[at + place] ^= 1`,
        ),
      )
      const kinds = ['small', 'deflated', 'stored']
      const named = (reason: string): readonly string[] => kinds.map((kind) => `${reason}-${kind}`)
      expect((await drive.sh('ls Bad')).split('\n').filter((name) => name !== '')).toEqual(
        ['good.txt', ...named('crc'), ...named('odd'), ...named('secret')].sort(),
      )
      expect(await tryToRead(...named('secret'))).toEqual(['EACCES', 'EACCES', 'EACCES'])
      expect(await tryToRead(...named('odd'))).toEqual(['ENOTSUP', 'ENOTSUP', 'ENOTSUP'])
      expect(await tryToRead(...named('crc'), 'good.txt')).toEqual(['EIO', 'EIO', 'EIO', 'read'])
      const isTold = (name: string): boolean =>
        drive.log
          .split('\n')
          .some((line) => ['No content', bagId, name].every((part) => line.includes(part)))
      for (const name of named('crc')) await expect.poll(() => isTold(name)).toBe(true)
      await restWorks()
    })

    it('an entry without data is named when it is in the way of a change, which goes on without it', async () => {
      const zip = await makeZip(
        `${GOOD}; add('gone.txt', 'x')`,
        "at = heads(raw, 'gone.txt')[1]; raw[at + 42:at + 46] = struct.pack('<I', 0x7fffffff)",
      )
      await given(zip, '--folder-settle', '1h')
      const bagId = (await bench.service.list()).find(({ filename }) => filename === 'Bad')?.bag_id
      expect(await drive.sh('echo new > Bad/new; cat Bad/good.txt')).toBe('good')
      const sync = ['sync', join(bench.mountpoint, 'Bad')]
      const refused = await bench.bagfs(sync)
      expect(refused.stderr).toContain('"gone.txt" is damaged')
      expect(refused.code).toBe(1)
      expect((await bench.service.list()).map(({ bag_id }) => bag_id)).toContain(bagId)
      await drive.sh('rm Bad/gone.txt')
      expect(await bench.bagfs(sync)).toMatchObject({ code: 0 })
      await unpackFolder(bench.service, 'Bad', join(bench.dir, 'unpacked'))
      expect(await drive.sh('cat ../unpacked/*')).toBe('goodnew\n')
      await restWorks()
    })

    it('a bomb is too large, and nothing of it is kept', async () => {
      await given(
        await makeZip(
          `${GOOD}; add('bomb', bytes(b'0123456789abcdef' * 12_000_000), zipfile.ZIP_DEFLATED)
for name, size in [('liar', 2_000_000), ('fibber', 90_000)]: add(name, bytes(size), zipfile.ZIP_DEFLATED)`,
          `for name, size in [('liar', 1_000_000), ('fibber', 50_000)]:
    for at, place in zip(heads(raw, name), (22, 24)): raw[at + place:at + place + 4] = struct.pack('<I', size)`,
        ),
        ...['--cache-size', '20MB', '--min-free', '900TB'],
      )
      expect(await drive.sh('ls -F')).toBe('Bad/\nfine.txt\n')
      const bombs = ['bomb', 'liar', 'fibber']
      expect(await tryToRead(...bombs, 'good.txt')).toEqual(['ENOSPC', 'EFBIG', 'EFBIG', 'read'])
      for (const bomb of bombs) {
        const why = bomb === 'bomb' ? 'No space left on device' : 'File too large'
        expect((await drive.fails(`echo x >> Bad/${bomb}`)).stderr).toContain(why)
        expect((await drive.fails(`mv Bad/${bomb} .`)).stderr).toContain(why)
      }
      const kept =
        'find ../state \\( -path "*/inflated/*" -o -path "*/outbox/*" \\) -type f -size +0 ! -name intent.json'
      await expect.poll(() => drive.sh(kept)).toBe('')
      expect(await drive.sh('ls')).toBe('Bad\nfine.txt\n')
      await restWorks()
    })

    it.each([
      { title: 'a truncated zip', change: 'raw = raw[:len(raw) // 2]' },
      { title: 'a zip without its directory', change: "raw = raw[:raw.index(b'PK\\x01\\x02')]" },
    ])('$title is an error of the folder', async ({ change }) => {
      const bagId = await given(await makeZip(`${GOOD}; add('b', 'b' * 5000)`, change))
      expect((await drive.fails('ls Bad')).stderr).toContain('Input/output error')
      await expect.poll(() => drive.log).toMatch(new RegExp(`No folder.*${bagId}`))
      expect(await drive.sh('ls')).toBe('Bad\nfine.txt\n')
      await restWorks()
    })

    it('bytes before the zip are stepped over', async () => {
      const zip = await makeZip(`${GOOD}; add('d/e', 'e' * 300000, zipfile.ZIP_DEFLATED)`)
      await given(
        Buffer.concat([Buffer.from('#!/bin/sh\nexit\n'), zip]),
        '--folder-settle',
        '100ms',
      )
      await drive.sh('ls')
      await drive.sh('setfattr -n user.bagfs.kind -v folder Bad')
      await expect.poll(() => drive.sh('ls -F')).toBe('Bad/\nfine.txt\n')
      expect(await drive.sh('cat Bad/good.txt; wc -c < Bad/d/e')).toBe('good300000\n')
    })
  },
)

describe.runIf(canMount())('a folder of 100,000 entries', () => {
  it('shows its tree when the zip is here, in less than 200 MB', async () => {
    const bench = await Bench.start()
    try {
      // 64-bit numbers in the end record, for over 65,535 entries, and in one entry.
      const zip = await makeZip(
        "for i in range(99_999): add(f'd{i // 1000}/f{i}', 'x')\nwith z.open('big64', 'w', force_zip64=True) as f: f.write(b'64')",
      )
      await bench.service.upload('Many', zip)
      const first = await bench.mount('--listing-ttl', '60s')
      expect(await first.sh('cat Many/d99/f99998 Many/big64')).toBe('x64')
      await first.leave()
      const drive = await bench.mount('--listing-ttl', '60s')
      await drive.sh('ls')
      expect(await drive.sh('ls Many | wc -l')).toBe('101\n')
      expect(drive.residentBytes()).toBeLessThan(200_000_000)
      expect(await drive.sh('ls Many/d7 | wc -l')).toBe('1000\n')
    } finally {
      await bench.close()
    }
  })
})

describe.runIf(canMount())('a large folder bag over ranges', () => {
  it('reading one small file of 60 MB fetches less than 5 MB', async () => {
    const bench = await Bench.start()
    try {
      await bench.service.upload(
        'Big',
        await makeZip(
          "import random\nr = random.Random(1)\nfor i in range(60): add(f'f{i:02}', r.randbytes(1_000_000))\nadd('small', 'small')\nfor i in range(2000): add(f'many/{i}', 'x')",
        ),
      )
      // Without a line in between, the buffers of the kernel alone take in more than that at once.
      bench.service.proxy.add({
        match: { method: 'GET', path: /download/ },
        fault: { bytesPerSecond: 20_000_000 },
      })
      const drive = await bench.mount('--listing-ttl', '60s')
      expect(await drive.sh('cat Big/small; ls Big | wc -l')).toBe('small62\n')
      const sent = bench.service.proxy.requests.map(({ answerBytes }) => answerBytes)
      expect(sent.reduce((sum, bytes) => sum + bytes, 0)).toBeLessThan(5_000_000)
    } finally {
      await bench.close()
    }
  })
})
