import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { FileRecordWire } from '../../src/service/wire.ts'
import { canMount } from '../support/fuse.ts'
import { Bench } from '../support/mounted-drive.ts'

/** Names as a service may have them, by what a drive shows for each. */
const STRANGE: Readonly<Record<string, string>> = {
  'a‛2Fb.txt': 'a/b.txt',
  'nul‛00.txt': 'nul\0.txt',
  'line‛0Aend.txt': 'line\nend.txt',
  'emoji 🎉☃.txt': 'emoji 🎉☃.txt',
  '‛2E': '.',
  '‛2E.': '..',
  '‛empty': '',
  '‛2Ebagfs': '.bagfs',
  'quote‛‛.txt': 'quote‛.txt',
  'no‛uFFFDutf8.txt': 'no\uFFFDutf8.txt',
  ' blank ': ' blank ',
  '-rf': '-rf',
  '*?"<>|\\$(x)': '*?"<>|\\$(x)',
}

let bench: Bench
afterEach(async () => {
  await bench.close()
})

describe.runIf(canMount())('names that a drive cannot have', () => {
  /** Bags by the strange name that a record gives them. */
  const bags = new Map<string, string>()
  beforeEach(async () => {
    bags.clear()
    bench = await Bench.start({
      extraRecords: () =>
        [...bags].map(([filename, bag_id]): FileRecordWire => ({
          filename,
          bag_id,
          size: 1,
          uploaded_at: 1,
          description: '',
        })),
    })
  })

  /** A bag under a plain name, and a second record that gives it the strange one. */
  const give = async (index: number, name: string): Promise<void> => {
    bags.set(name, await bench.service.upload(`plain ${index}`, `content of ${name}\n`))
  }

  it('are shown in a code, each once, and lead to their content', async () => {
    const names = Object.entries(STRANGE)
    for (const [index, [, name]] of names.entries()) await give(index, name)
    const drive = await bench.mount()
    const shown = (await drive.sh("find . -mindepth 1 -not -name 'plain *' -printf '%P\\0'"))
      .split('\0')
      .slice(0, -1)
    expect(shown.sort()).toEqual(names.map(([coded]) => coded).sort())
    for (const [coded, name] of names) {
      const quoted = `./${coded}`.replace(/'/g, `'\\''`)
      expect(await drive.sh(`cat '${quoted}'`), coded).toBe(`content of ${name}\n`)
    }
  })

  it('of more than 255 bytes are cut, stay apart, and keep their extension', async () => {
    const long = [`${'x'.repeat(300)}.txt`, `${'x'.repeat(301)}.txt`, `${'é'.repeat(200)}.pdf`]
    for (const [index, name] of long.entries()) await give(index, name)
    const drive = await bench.mount()
    const shown = (await drive.sh("ls | grep -v '^plain'")).split('\n').slice(0, -1)
    expect(shown).toHaveLength(3)
    for (const name of shown) expect(Buffer.byteLength(name)).toBeLessThanOrEqual(255)
    expect(shown.filter((name) => name.endsWith('.txt'))).toHaveLength(2)
    const contents = await drive.sh('ls | grep -v \'^plain\' | while read -r n; do cat "$n"; done')
    expect(contents.split('\n').slice(0, -1).sort()).toEqual(
      long.map((name) => `content of ${name}`).sort(),
    )
  })
})

describe.runIf(canMount())('names that a program gives', () => {
  beforeEach(async () => {
    bench = await Bench.start()
  })

  it('reach the service unchanged', async () => {
    const names = [
      'emoji 🎉',
      'e\u0301',
      'é',
      'a‛b',
      '-rf',
      '.config',
      'per cent %22.txt',
      'say "hi".txt',
      '"',
      'back\\slash',
      'two\\\\',
      'C:\\dir\\',
      'a\\"b',
      'x'.repeat(255),
    ]
    const drive = await bench.mount()
    for (const name of names) {
      await drive.sh(
        `printf %s "$NAME" > "./$NAME"`.replaceAll('$NAME', `$(printf %b '${escape(name)}')`),
      )
    }
    expect(await bench.service.contents()).toEqual(
      Object.fromEntries(names.map((name) => [name, name])),
    )
    for (const name of names) {
      expect(await drive.sh(`cat "./$(printf %b '${escape(name)}')"`)).toBe(name)
    }
  })

  it('are refused when they are too long or mean something else here', async () => {
    const drive = await bench.mount()
    const tooLong = await drive.fails(`echo x > ${'x'.repeat(256)}`)
    expect(tooLong.stderr).toContain('File name too long')
    expect((await drive.fails('echo x > .Trash-0')).stderr).toMatch(
      /Operation not permitted|Permission denied/,
    )
    expect(await bench.service.list()).toEqual([])
  })
})

describe.runIf(canMount())('one name for several bags', () => {
  beforeEach(async () => {
    bench = await Bench.start()
  })

  it('belongs to the newest, the others say which they are, and a delete takes that one only', async () => {
    const old = await bench.service.upload('a.txt', 'older\n')
    const young = await bench.service.upload('a.txt', 'newer\n')
    const aside = `a (${old.slice(0, 8)}).txt`
    const drive = await bench.mount('--listing-ttl', '100ms')
    expect(await drive.sh(`ls; cat a.txt "${aside}"`)).toBe(`${aside}\na.txt\nnewer\nolder\n`)
    expect(await drive.sh('getfattr --only-values -n user.bagfs.bag_id a.txt')).toBe(young)
    await drive.sh('rm a.txt')
    await expect.poll(() => bench.service.contents()).toEqual({ 'a.txt': 'older\n' })
    await expect.poll(() => drive.sh('ls; cat a.txt')).toBe('a.txt\nolder\n')
  })

  it('is written to where it is, and the others stay', async () => {
    await bench.service.upload('a.txt', 'older\n')
    await bench.service.upload('a.txt', 'newer\n')
    const drive = await bench.mount('--listing-ttl', '100ms')
    await drive.sh('echo newest > a.txt')
    expect(await drive.sh('cat a*.txt | sort')).toBe('newest\nolder\n')
    await expect.poll(() => bench.service.list()).toHaveLength(2)
    await expect.poll(() => drive.sh('cat a*.txt | sort')).toBe('newest\nolder\n')
  })

  it('becomes two names by a rename of one of them', async () => {
    const old = await bench.service.upload('a.txt', 'older\n')
    await bench.service.upload('a.txt', 'newer\n')
    const drive = await bench.mount('--listing-ttl', '100ms')
    await drive.sh(`mv "a (${old.slice(0, 8)}).txt" b.txt`)
    await expect.poll(() => bench.service.list()).toEqual([expect.anything(), expect.anything()])
    expect(await bench.service.contents()).toEqual({ 'a.txt': 'newer\n', 'b.txt': 'older\n' })
    expect(await drive.sh('ls')).toBe('a.txt\nb.txt\n')
  })
})

/** For printf %b: every byte of the name in octal. */
function escape(name: string): string {
  return [...Buffer.from(name)].map((byte) => `\\0${byte.toString(8)}`).join('')
}

describe.runIf(canMount())('names that are not UTF-8', () => {
  beforeEach(async () => {
    bench = await Bench.start()
  })

  it.each(['.', 'folder'])(
    'are refused in %s, so that two of them are never one file',
    async (at) => {
      const drive = await bench.mount()
      await drive.sh('mkdir folder; echo in >folder/plain')
      for (const command of [
        `printf one >${at}/$'\\xff'`,
        `mv ${at}/plain ${at}/$'a\\xfe'`,
        `mkdir ${at}/$'\\xff'`,
        `ln -s $'\\xff' folder/link`,
        `cat ${at}/$'\\xff'`,
      ]) {
        const { stderr } = await drive.fails(`echo there >${at}/plain; ${command}`)
        expect(stderr).toContain('Invalid or incomplete multibyte or wide character')
      }
      expect(await drive.sh(`ls ${at} | grep -v folder`)).toBe('plain\n')
    },
  )
})
