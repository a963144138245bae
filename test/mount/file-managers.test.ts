import { mkdirSync, writeFileSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { deferred } from '../../src/domain/deferred.ts'
import { DesktopSession } from '../support/desktop-session.ts'
import { canMount } from '../support/fuse.ts'
import { hasProgram } from '../support/has-program.ts'
import { Bench } from '../support/mounted-drive.ts'
import { noisePicture } from '../support/pictures.ts'
import { TraceRun } from '../support/trace-run.ts'

interface FileManager {
  readonly name: string
  readonly command: readonly [string, ...(readonly string[])]
  /** The title of the window that shows a directory. */
  readonly shows: (dir: string) => RegExp
  readonly renaming: RegExp
  readonly deleting: RegExp
  readonly copying: RegExp
  readonly canUndo: boolean
}

const FILE_MANAGERS: readonly FileManager[] = [
  {
    name: 'Thunar',
    command: ['thunar'],
    shows: (dir) => new RegExp(`^${basename(dir)} - Thunar$`),
    renaming: /^Rename "/,
    deleting: /^Attention$/,
    copying: /^File Operation Progress$/,
    canUndo: true,
  },
  {
    name: 'PCManFM',
    command: ['pcmanfm', '--no-desktop', '--new-win'],
    shows: (dir) => new RegExp(`^${basename(dir)}$`),
    renaming: /^Rename File$/,
    // First whether to move it to the trash, then whether to delete it, as there is none.
    deleting: /^Confirm$/,
    copying: /^Copying files$/,
    canUndo: false,
  },
]

const PROGRAMS = ['Xvfb', 'dbus-daemon', 'xdotool', 'xclip', 'l3afpad', 'thunar', 'pcmanfm']

let bench: Bench
let desktop: DesktopSession

beforeEach(async () => {
  bench = await Bench.start({ isHome: true })
  desktop = await DesktopSession.start(bench.dir)
})

afterEach(async () => {
  await desktop.close()
  await bench.close()
})

/** What programs of desktops put into /tmp, whatever TMPDIR says: sockets and locks of screens, and sockets of buses. */
async function leftInTmp(): Promise<readonly string[]> {
  const names = await readdir('/tmp')
  const sockets = names.includes('.X11-unix') ? await readdir('/tmp/.X11-unix') : []
  return [...names.filter((name) => /^(\.X|dbus-)/.test(name)), ...sockets]
}

/** The service is in this process: nothing may wait here for the drive. */
async function isIn(dir: string, name: string): Promise<boolean> {
  return (await readdir(dir)).includes(name)
}

/** A directory of this machine, with these letters in it. */
function makeOutside(...names: readonly string[]): string {
  const dir = join(bench.dir, 'outside')
  mkdirSync(dir)
  for (const name of names) writeFileSync(join(dir, name), 'Dear reader,\n')
  return dir
}

/** A window of a file manager that shows a directory, and what a person does in it. */
class Folder {
  readonly dir: string
  readonly #manager: FileManager

  private constructor(manager: FileManager, dir: string) {
    this.#manager = manager
    this.dir = dir
  }

  static async open(manager: FileManager, dir: string): Promise<Folder> {
    await desktop.open(manager.shows(dir), ...manager.command, dir)
    return new Folder(manager, dir)
  }

  async press(...keys: readonly string[]): Promise<void> {
    await desktop.press(this.#manager.shows(this.dir), 'Escape', ...keys)
  }

  /** Presses keys on all that the directory has, until they have made a window. */
  async ask(window: RegExp, ...keys: readonly string[]): Promise<void> {
    const isAsked = () => desktop.shows(window)
    await desktop.until(isAsked, () => this.press('ctrl+a', ...keys))
  }

  /** Opens the one directory in this one, in the same window. */
  async enter(name: string): Promise<Folder> {
    const inside = new Folder(this.#manager, join(this.dir, name))
    await this.ask(this.#manager.shows(inside.dir), 'Home', 'Return')
    return inside
  }

  async rename(newName: string): Promise<void> {
    const { renaming } = this.#manager
    const isRenamed = () => isIn(this.dir, newName)
    await desktop.until(isRenamed, async () => {
      await this.ask(renaming, 'F2')
      await desktop.press(renaming, 'ctrl+a')
      await desktop.write(renaming, newName)
      await desktop.press(renaming, 'Return')
    })
  }

  /** Copies the one file of this directory. */
  async copy(name: string, to: Folder): Promise<void> {
    const url = pathToFileURL(join(this.dir, name)).href
    const isCopied = async () => (await desktop.copied()).join('\n') === url
    await desktop.until(isCopied, () => this.press('ctrl+a', 'ctrl+c'))
    const isPasted = () => isIn(to.dir, name)
    await desktop.until(isPasted, () => to.press('ctrl+v'))
  }

  async remove(name: string): Promise<void> {
    const { deleting } = this.#manager
    await this.ask(deleting, 'Delete')
    await desktop.accept(deleting, async () => !(await isIn(this.dir, name)))
  }
}

describe.runIf(PROGRAMS.every(hasProgram))('the desktop of these tests', () => {
  it('has nothing in /tmp', async () => {
    const home = join(bench.dir, 'other-home')
    mkdirSync(home)
    const before = await leftInTmp()
    const other = await DesktopSession.start(home)
    expect(await leftInTmp()).toEqual(before)
    await other.close()
    expect(await leftInTmp()).toEqual(before)
  })
})

describe.runIf(canMount() && PROGRAMS.every(hasProgram)).each(FILE_MANAGERS)(
  'a drive in $name',
  (manager) => {
    it('gives a file a new name, which is undone where the file manager can', async () => {
      await bench.service.upload('letter.txt', 'Dear reader,\n')
      const drive = await bench.mount()
      const inside = await Folder.open(manager, drive.path)
      await inside.rename('Letter to all.txt')
      const renamed = { 'Letter to all.txt': 'Dear reader,\n' }
      await expect.poll(() => bench.service.contents()).toEqual(renamed)
      if (!manager.canUndo) return
      // The file manager notes a step once it is done, so a key may come too early.
      const isUndone = () => isIn(drive.path, 'letter.txt')
      await desktop.until(isUndone, () => inside.press('ctrl+z'))
      await expect.poll(() => bench.service.contents()).toEqual({ 'letter.txt': 'Dear reader,\n' })
    })

    it('takes a save from an editor, copies out and in, and a delete', async () => {
      const name = 'Letter to all.txt'
      await bench.service.upload(name, 'Dear reader,\n')
      const drive = await bench.mount()
      const inside = await Folder.open(manager, drive.path)
      const outside = await Folder.open(manager, makeOutside())

      const editor = /Letter to all\.txt/
      await inside.ask(editor, 'Home', 'Return')
      await desktop.press(editor, 'ctrl+End')
      await desktop.write(editor, 'all is well')
      await desktop.press(editor, 'ctrl+s')
      const text = 'Dear reader,\nall is well'
      await expect.poll(() => bench.service.contents()).toEqual({ [name]: text })

      await inside.copy(name, outside)
      await expect.poll(() => readFile(join(outside.dir, name), 'utf8')).toBe(text)
      await inside.remove(name)
      await expect.poll(() => bench.service.contents()).toEqual({})
      expect((await bench.bagfs(['trash', 'list'])).stdout).toContain(name)

      await outside.copy(name, inside)
      await expect.poll(() => bench.service.contents()).toEqual({ [name]: text })
    })

    it('opens a folder, and takes a file into it and out of it', async () => {
      const drive = await bench.mount()
      await drive.sh('mkdir Letters')
      const root = await Folder.open(manager, drive.path)
      const outside = await Folder.open(manager, makeOutside('letter.txt'))
      const letters = await root.enter('Letters')
      await outside.copy('letter.txt', letters)
      await letters.remove('letter.txt')
      await outside.copy('letter.txt', letters)
      expect(await bench.bagfs(['sync', drive.path])).toMatchObject({ code: 0 })
      const other = await bench.mountOther()
      expect(await readFile(join(other.path, 'Letters/letter.txt'), 'utf8')).toBe('Dear reader,\n')
    })

    it('shows a copy for as long as the service does not have it', async () => {
      const drive = await bench.mount()
      const outside = await Folder.open(manager, makeOutside('letter.txt'))
      const mayStore = deferred()
      const fault = { before: () => mayStore.promise }
      bench.service.proxy.add({ match: { method: 'POST' }, fault })
      const isShown = () => desktop.shows(manager.copying)
      await outside.copy('letter.txt', await Folder.open(manager, drive.path))
      await expect.poll(isShown).toBe(true)
      expect(await bench.service.list()).toEqual([])
      mayStore.resolve()
      await expect.poll(isShown).toBe(false)
      expect(await bench.service.contents()).toEqual({ 'letter.txt': 'Dear reader,\n' })
    })

    it('does not fetch large pictures for their thumbnails', async () => {
      const large = await bench.service.upload('a-large.png', noisePicture(1000))
      await bench.service.upload('b-small.png', noisePicture(100))
      const drive = await bench.mount('--thumbnails', '1MB')
      const trace = await TraceRun.start([drive.path, '--json'], { runtimeDir: bench.dir })
      await Folder.open(manager, drive.path)
      await trace.sees({ operation: 'open', path: '/a-large.png', result: 'EPERM' })
      await trace.sees({ operation: 'open', path: '/b-small.png', result: 'ok' })
      const fetched = bench.service.events.filter(({ path }) => path.includes(large))
      expect(fetched).toEqual([])
      // Every other program may read it, and then it is here for a thumbnail, too.
      expect((await readFile(join(drive.path, 'a-large.png'))).length).toBeGreaterThan(1_000_000)
      trace.kill()
    })
  },
)
