import { join } from 'node:path'
import { execa } from 'execa'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { canMount } from '../support/fuse.ts'
import { Bench, type MountedDrive } from '../support/mounted-drive.ts'

/** Python that makes a zip `z` from entries; `add(name, data, method)`, then bytes are changed in place. */
const HEAD = `
import io, sys, struct, zipfile
out = io.BytesIO()
z = zipfile.ZipFile(out, 'w')
def add(name, data, method=zipfile.ZIP_STORED):
    info = zipfile.ZipInfo(name, (2024, 1, 2, 3, 4, 6))
    info.compress_type = method
    z.writestr(info, data)
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
    const restWorks = async (): Promise<void> => {
      expect(await drive.sh('cat fine.txt')).toBe('fine')
    }

    it('names never lead out of the folder', async () => {
      await given(
        await makeZip(
          `${GOOD}; add('../up', 'u'); add('/abs', 'a'); add('a/../../deep', 'd'); add('..', 'dots'); add('x' * 300, 'long')`,
        ),
      )
      expect(await drive.sh('cat Bad/good.txt')).toBe('good')
      expect(await drive.sh('ls -F')).toBe('Bad/\nfine.txt\n')
      // Each is shown under some name inside, and can be read there.
      expect(
        await drive.sh('find Bad -type f -exec cat {} + | fold -w1 | sort | tr -d "\\n"'),
      ).toBe('adddgglnoooostu')
      await execa('bash', ['-c', '! ls up abs deep'], { cwd: bench.dir })
      await restWorks()
    })

    it('an encrypted entry is listed and not to be opened, nor one of an unknown method', async () => {
      await given(
        await makeZip(
          `${GOOD}; add('secret', 'secret'); add('odd', 'odd')`,
          "for at, flag in zip(heads(raw, 'secret'), (6, 8)): raw[at + flag] |= 1\nfor at, place in zip(heads(raw, 'odd'), (8, 10)): raw[at + place] = 97",
        ),
      )
      expect(await drive.sh('ls Bad')).toBe('good.txt\nodd\nsecret\n')
      expect((await drive.fails('cat Bad/secret')).stderr).toContain('Permission denied')
      expect((await drive.fails('cat Bad/odd')).stderr).toContain('cat:')
      expect(await drive.sh('cat Bad/good.txt')).toBe('good')
      await restWorks()
    })

    it('a wrong CRC is an error of that entry only', async () => {
      const bagId = await given(
        await makeZip(
          `${GOOD}; add('small', 'contentofsmall'); add('large', 'contentoflarge' * 100000, zipfile.ZIP_DEFLATED)`,
          "i = raw.index(b'contentofsmall'); raw[i] ^= 1\nfor at, place in zip(heads(raw, 'large'), (14, 16)): raw[at + place] ^= 1",
        ),
      )
      expect(await drive.sh('cat Bad/good.txt')).toBe('good')
      expect((await drive.fails('cat Bad/small')).stderr).toContain('Input/output error')
      expect((await drive.fails('cat Bad/large')).stderr).toContain('Input/output error')
      expect(await drive.sh('cat Bad/good.txt')).toBe('good')
      expect(drive.log).toContain(bagId)
      await restWorks()
    })

    it('a bomb is too large, and nothing of it is kept', async () => {
      await given(
        await makeZip(
          `${GOOD}; add('bomb', bytes(200_000_000), zipfile.ZIP_DEFLATED); add('liar', bytes(2_000_000), zipfile.ZIP_DEFLATED)`,
          "for at, place in zip(heads(raw, 'liar'), (22, 24)): raw[at + place:at + place + 4] = struct.pack('<I', 1_000_000)",
        ),
      )
      expect((await drive.fails('cat Bad/bomb > /dev/null')).stderr).toContain('File too large')
      await drive.fails('cat Bad/liar > /dev/null')
      expect(await drive.sh('cat Bad/good.txt')).toBe('good')
      const { stdout } = await execa('du', ['-sb', '--apparent-size', join(bench.dir, 'state')])
      expect(Number.parseInt(stdout)).toBeLessThan(5_000_000)
      await restWorks()
    })

    it.each([
      { title: 'a truncated zip', change: 'raw = raw[:len(raw) // 2]' },
      { title: 'a zip without its directory', change: "raw = raw[:raw.index(b'PK\\x01\\x02')]" },
    ])('$title is an error of the folder', async ({ change }) => {
      const bagId = await given(await makeZip(`${GOOD}; add('b', 'b' * 5000)`, change))
      expect((await drive.fails('ls Bad')).stderr).toContain('Input/output error')
      expect(drive.log).toContain(bagId)
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
      const drive = await bench.mount('--listing-ttl', '60s')
      expect(await drive.sh('cat Big/small; ls Big | wc -l')).toBe('small62\n')
      const sent = bench.service.proxy.requests.map(({ answerBytes }) => answerBytes)
      expect(sent.reduce((sum, bytes) => sum + bytes, 0)).toBeLessThan(5_000_000)
    } finally {
      await bench.close()
    }
  })
})
