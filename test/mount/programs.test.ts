import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { canMount } from '../support/fuse.ts'
import { hasProgram } from '../support/has-program.ts'
import { Bench, type MountedDrive } from '../support/mounted-drive.ts'

describe.runIf(canMount()).each([{ mode: 'through' }, { mode: 'back' }])(
  'ordinary programs on a drive in mode $mode',
  ({ mode }) => {
    let bench: Bench
    let drive: MountedDrive
    let outside: string
    beforeEach(async () => {
      bench = await Bench.start()
      drive = await bench.mount(
        '--listing-ttl',
        '50ms',
        ...(mode === 'back' ? ['--write-back'] : []),
      )
      outside = join(bench.dir, 'outside')
      mkdirSync(outside)
    })
    afterEach(async () => {
      await bench.close()
    })

    /** A file that another client uploaded and the drive knows of. */
    const given = async (name: string, content: string, description = ''): Promise<void> => {
      await bench.service.upload(name, content, description)
      await expect.poll(() => drive.sh('ls')).toContain(name)
      bench.service.forgetEvents()
    }

    /** What the service has once everything is sent, and the uploads that took. */
    const stored = async (): Promise<{
      contents: Record<string, string>
      uploads: readonly unknown[]
    }> => {
      if (mode === 'back') await drive.leave()
      // A replaced bag is deleted after close has answered.
      await expect
        .poll(async () => {
          const names = (await bench.service.list()).map(({ filename }) => filename)
          return names.length - new Set(names).size
        })
        .toBe(0)
      return { contents: await bench.service.contents(), uploads: bench.service.uploads() }
    }

    it('a shell writes with > and >>', async () => {
      await drive.sh('echo one > f.txt')
      if (mode === 'through') expect(bench.service.uploads()).toEqual(['f.txt'])
      await drive.sh('echo two >> f.txt; cat f.txt')
      expect((await stored()).contents).toEqual({ 'f.txt': 'one\ntwo\n' })
      if (mode === 'through') expect(bench.service.uploads()).toHaveLength(2)
    })

    it('a shell hands one file to several programs: one upload', async () => {
      await drive.sh('{ echo a; /bin/echo b; (echo c); } > f.txt')
      expect(await stored()).toEqual({ contents: { 'f.txt': 'a\nb\nc\n' }, uploads: ['f.txt'] })
    })

    it('touch makes an empty file', async () => {
      await drive.sh('touch empty')
      expect(await stored()).toEqual({ contents: { empty: '' }, uploads: ['empty'] })
    })

    it('cp -a keeps content, mode and time; one upload', async () => {
      writeFileSync(join(outside, 'script.sh'), '#!/bin/sh\necho hi\n', { mode: 0o750 })
      await drive.sh(
        `touch -d '2020-02-03 04:05:06' ../outside/script.sh; cp -a ../outside/script.sh .`,
      )
      expect(await drive.sh('stat -c "%a %Y" script.sh')).toBe(
        await drive.sh('stat -c "%a %Y" ../outside/script.sh'),
      )
      expect(await drive.sh('./script.sh')).toBe('hi\n')
      expect((await stored()).uploads).toEqual(['script.sh'])
    })

    it.each(['-a', '-a --inplace'])(
      'rsync %s: one upload, and none the second time',
      async (flags) => {
        writeFileSync(join(outside, 'data.txt'), 'rsynced\n')
        await drive.sh(`rsync ${flags} ../outside/data.txt .`)
        await drive.sh(`rsync ${flags} ../outside/data.txt .`)
        expect(await stored()).toEqual({
          contents: { 'data.txt': 'rsynced\n' },
          uploads: ['data.txt'],
        })
      },
    )

    it('rsync replaces a file: one more upload, the old bag goes', async () => {
      await given('data.txt', 'old\n')
      writeFileSync(join(outside, 'data.txt'), 'new and longer\n')
      await drive.sh('rsync -a ../outside/data.txt .')
      const { contents, uploads } = await stored()
      expect(contents).toEqual({ 'data.txt': 'new and longer\n' })
      expect(uploads).toEqual(['data.txt'])
      await expect.poll(() => bench.service.deletes()).toBe(1)
    })

    it('sed -i: one upload', async () => {
      await given('f.txt', 'alpha\n')
      await drive.sh('sed -i s/alpha/beta/ f.txt; cat f.txt')
      expect(await stored()).toEqual({ contents: { 'f.txt': 'beta\n' }, uploads: ['f.txt'] })
    })

    it.each(['', 'set backupcopy=yes', 'set nowritebackup'])(
      'vim (%s): one upload',
      async (setting) => {
        if (!hasProgram('vim')) return
        await given('f.txt', 'first line\n')
        await drive.sh(
          `vim -u NONE -es -c '${setting}' -c 'normal ggOnew' -c 'wq' f.txt </dev/null`,
        )
        expect(await stored()).toEqual({
          contents: { 'f.txt': 'new\nfirst line\n' },
          uploads: ['f.txt'],
        })
      },
    )

    it('gio save: one upload', async () => {
      if (!hasProgram('gio')) return
      await given('f.txt', 'old\n')
      await drive.sh('echo saved | gio save f.txt')
      expect(await stored()).toEqual({ contents: { 'f.txt': 'saved\n' }, uploads: ['f.txt'] })
    })

    it('python appends to a zip: right bytes', async () => {
      await drive.sh(
        `python3 -c "import zipfile
with zipfile.ZipFile('z.zip','w') as z: z.writestr('a','A')"`,
      )
      bench.service.forgetEvents()
      await drive.sh(
        `python3 -c "import zipfile
with zipfile.ZipFile('z.zip','a') as z: z.writestr('b','B')"; python3 -m zipfile -l z.zip | grep -c '^[ab] '`,
      )
      const { uploads } = await stored()
      expect(uploads.at(-1)).toBe('z.zip')
      if (mode === 'through') expect(uploads).toEqual(['z.zip'])
    })

    it('dd conv=notrunc changes bytes in the middle: one upload', async () => {
      await given('f.bin', 'aaaaaaaaaa')
      await drive.sh('printf BB | dd of=f.bin bs=1 seek=4 conv=notrunc status=none')
      expect(await stored()).toEqual({ contents: { 'f.bin': 'aaaaBBaaaa' }, uploads: ['f.bin'] })
    })

    it('truncate shortens and lengthens', async () => {
      await given('f.bin', 'abcdef')
      await drive.sh('truncate -s 3 f.bin; cat f.bin; truncate -s 5 f.bin')
      expect((await stored()).contents).toEqual({ 'f.bin': 'abc\0\0' })
    })

    it('sqlite3 works on a database, and its journal stays here', async () => {
      if (!hasProgram('sqlite3')) return
      await drive.sh(
        'sqlite3 t.db "create table t(x); insert into t values(1); insert into t values(2);"',
      )
      expect(await drive.sh('sqlite3 t.db "select sum(x) from t"')).toBe('3\n')
      const { uploads, contents } = await stored()
      expect(Object.keys(contents)).toEqual(['t.db'])
      expect(new Set(uploads)).toEqual(new Set(['t.db']))
    })

    it('mv renames and replaces', async () => {
      await given('a.txt', 'A')
      await given('b.txt', 'B')
      await drive.sh('mv a.txt c.txt; mv c.txt b.txt; cat b.txt; ls')
      const { contents } = await stored()
      expect(contents).toEqual({ 'b.txt': 'A' })
    })

    it('rm of a file is one DELETE', async () => {
      await given('a.txt', 'A')
      await drive.sh('rm a.txt')
      expect(await stored()).toEqual({ contents: {}, uploads: [] })
      expect(bench.service.deletes()).toBe(1)
    })

    it('a file that is made and removed at once never reaches the service', async () => {
      await drive.sh('exec 3>gone.txt; echo x >&3; rm gone.txt; exec 3>&-')
      expect(await stored()).toEqual({ contents: {}, uploads: [] })
    })

    it('litter of desktops works and stays here', async () => {
      await drive.sh(
        'echo x > .DS_Store; echo y > ._a; cat .DS_Store ._a; echo z > .~lock.doc.odt#',
      )
      expect(await drive.sh('ls -A')).toBe('.DS_Store\n._a\n.~lock.doc.odt#\n')
      expect(await stored()).toEqual({ contents: {}, uploads: [] })
    })

    it('an overwrite keeps the description', async () => {
      await given('a.txt', 'A', 'words')
      await drive.sh('echo B > a.txt')
      await stored()
      expect((await bench.service.list()).map(({ description }) => description)).toEqual(['words'])
    })

    it('LibreOffice converts a document inside the drive: one upload', async () => {
      if (!hasProgram('soffice')) return
      await given('text.txt', 'A paragraph.\n')
      await drive.sh(
        `soffice -env:UserInstallation=file://${bench.dir}/office --headless --convert-to odt --outdir . text.txt`,
      )
      const { uploads, contents } = await stored()
      expect(Object.keys(contents).sort()).toEqual(['text.odt', 'text.txt'])
      expect(uploads).toEqual(['text.odt'])
    })
  },
)
