import { expect } from 'vitest'
import type { HostileRow } from './hostile-rows.ts'
import { HostileService } from './hostile-service.ts'

/** What programs do in a drive; each rejects when a program would have been told an error. */
export interface Programs {
  /** By a listing that is asked for now, when the service gives one. */
  names(): Promise<readonly string[]>
  /** Asks what the account has left. */
  room(): Promise<void>
  read(path: string): Promise<string>
  write(path: string, content: string): Promise<void>
  append(path: string, content: string): Promise<void>
  rename(from: string, to: string): Promise<void>
  remove(path: string): Promise<void>
  makeDirectory(path: string): Promise<void>
  importBag(bagId: string): Promise<void>
  /** Resolves when the service has everything. */
  send(): Promise<void>
  /** Ends the drive, and starts it again with the same state. */
  again(): Promise<void>
  end(): Promise<void>
}

type Ended = 'success' | 'error'

/** How a program ended, and the contents that its file may have from then on: none is no file. */
interface Done {
  readonly path: string
  readonly ended: Ended
  readonly after: Readonly<Record<Ended, readonly (string | undefined)[]>>
}

/** So long that no error text is as long. */
const STORED = 'each byte is wanted '.repeat(500)
const LONGER = `${STORED}, and more`

/** An account, a drive of it, and programs that meet the answers of one row. */
export class HostileRun {
  readonly service: HostileService
  readonly #row: HostileRow
  readonly #programs: Programs
  #done: readonly Done[] = []

  private constructor(service: HostileService, row: HostileRow, programs: Programs) {
    this.service = service
    this.#row = row
    this.#programs = programs
  }

  /** `open` starts a drive of the account. */
  static async start(
    row: HostileRow,
    open: (service: HostileService) => Promise<Programs>,
  ): Promise<HostileRun> {
    const service = await HostileService.start()
    for (const name of ['read', 'unread', 'moving', 'growing', 'replaced', 'leaving']) {
      service.put(name, `${name} ${STORED}`)
    }
    const programs = await open(service)
    const downloadsFor = async (name: string): Promise<number> => {
      const before = service.downloads
      expect(await programs.read(name)).toBe(`${name} ${STORED}`)
      return service.downloads - before
    }
    await expect.poll(() => downloadsFor('read')).toBe(0)
    return new HostileRun(service, row, programs)
  }

  async end(): Promise<void> {
    await this.#programs.end()
    await this.service.close()
  }

  /** Programs meet the answer; then what the drive knows is shown, and nothing is lost. */
  async meet(): Promise<void> {
    const { service } = this
    const { endpoint, answer, times = Infinity, expects } = this.#row
    service.harm(answer, times, (asked) => asked.endpoint === endpoint)
    this.#done = await Promise.all(this.#programsFor())
    expect(service.harmed).toBeGreaterThan(0)
    expect(await this.#programs.names()).toEqual(expect.arrayContaining(['read', 'unread']))
    expect(await this.#programs.read('read')).toBe(`read ${STORED}`)
    expect(service.losses).toEqual([])
    if (expects !== 'either') expect(this.#done.at(-1)?.ended).toBe(expects)
  }

  /** Once the service is sound all is as the programs were told, here, after a remount, and elsewhere. */
  async isWellAgain(elsewhere: (service: HostileService) => Promise<Programs>): Promise<void> {
    this.service.well()
    // What failed is tried again after a while.
    const sent = (): Promise<string> => this.#programs.send().then(() => 'sent', String)
    await expect.poll(sent).toBe('sent')
    await this.#isAsTold(this.#programs)
    await this.#programs.again()
    await this.#isAsTold(this.#programs)
    const other = await elsewhere(this.service)
    try {
      await this.#isAsTold(other)
    } finally {
      await other.end()
    }
    expect(this.service.losses).toEqual([])
  }

  /** The last one is the one whose end the row tells. */
  #programsFor(): readonly Promise<Done>[] {
    const programs = this.#programs
    const replace = (): Promise<Done> =>
      this.#run('replaced', programs.write('replaced', `replaced ${LONGER}`), {
        success: [`replaced ${LONGER}`],
        error: [`replaced ${STORED}`, `replaced ${LONGER}`],
      })
    switch (this.#row.endpoint) {
      case 'list':
        return [this.#run('unread', programs.names(), same([`unread ${STORED}`]))]
      case 'account':
        return [this.#run('unread', programs.room(), same([`unread ${STORED}`]))]
      case 'upload':
        return [
          replace(),
          this.#run('moved', programs.rename('moving', 'moved'), {
            success: [`moving ${STORED}`],
            error: [undefined, `moving ${STORED}`],
          }),
          this.#makeFresh(),
        ]
      case 'folder upload':
        return [this.#run('folder/file', this.#makeFolder(), same(['new']))]
      case 'delete':
        this.service.mayLose.add('leaving')
        return [
          replace(),
          this.#run('leaving', programs.remove('leaving'), {
            success: [undefined],
            error: [undefined, `leaving ${STORED}`],
          }),
        ]
      case 'add by id': {
        const bagId = this.service.putElsewhere('imported', 'theirs')
        return [
          this.#run('imported', programs.importBag(bagId), {
            success: ['theirs'],
            error: [undefined, 'theirs'],
          }),
        ]
      }
      case 'download':
        return [
          this.#run('moved', programs.rename('moving', 'moved'), {
            success: [`moving ${STORED}`],
            error: [undefined, `moving ${STORED}`],
          }),
          this.#run('growing', programs.append('growing', ', and more'), {
            success: [`growing ${LONGER}`],
            error: [`growing ${STORED}`, `growing ${LONGER}`],
          }),
          this.#run('unread', this.#readRight('unread'), same([`unread ${STORED}`])),
        ]
    }
  }

  async #run(path: string, program: Promise<unknown>, after: Done['after']): Promise<Done> {
    const ended = await program.then(
      (): Ended => 'success',
      (error: unknown): Ended => {
        if (error instanceof Error && error.name === 'AssertionError') throw error
        return 'error'
      },
    )
    return { path, ended, after }
  }

  #makeFresh(): Promise<Done> {
    return this.#run('fresh', this.#programs.write('fresh', 'new'), {
      success: ['new'],
      error: [undefined, 'new'],
    })
  }

  /** What is there of a folder's files is on this machine; that it was met is told by the service. */
  async #makeFolder(): Promise<void> {
    await this.#programs.makeDirectory('folder')
    await this.#programs.write('folder/file', 'new')
    await this.#programs.send().catch(() => undefined)
  }

  /** Wrong bytes are worse than any error. */
  async #readRight(name: string): Promise<void> {
    expect(await this.#programs.read(name)).toBe(`${name} ${STORED}`)
  }

  async #isAsTold(programs: Programs): Promise<void> {
    const names = await programs.names()
    expect(names.filter((name) => name.includes('odd'))).toEqual([])
    const told = [...this.#done, ...['read', 'unread'].map(untouched)]
    for (const { path, ended, after } of told) {
      const isThere = names.includes(path.split('/')[0] ?? '')
      expect(after[ended]).toContain(isThere ? await readSoon(programs, path) : undefined)
    }
    const moved = names.filter((name) => name === 'moving' || name === 'moved')
    expect(moved).not.toEqual([])
    for (const name of moved) expect(await readSoon(programs, name)).toBe(`moving ${STORED}`)
  }
}

/** A download that failed is not asked for again at once. */
async function readSoon(programs: Programs, path: string): Promise<string> {
  let content = ''
  const read = async (): Promise<string> => {
    content = await programs.read(path)
    return 'read'
  }
  await expect.poll(() => read().catch(String)).toBe('read')
  return content
}

function untouched(path: string): Done {
  return { path, ended: 'success', after: same([`${path} ${STORED}`]) }
}

function same(contents: readonly string[]): Done['after'] {
  return { success: contents, error: contents }
}
