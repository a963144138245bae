import { rmSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import fc from 'fast-check'
import { expect } from 'vitest'
import { TUNING } from '../../src/mount/build-drive.ts'
import { isDriveError } from '../../src/domain/errors.ts'
import type { HandleId } from '../../src/domain/ids.ts'
import { DriveInProcess, type DriveHome } from '../support/drive-in-process.ts'
import { eventually } from '../support/eventually.ts'
import type { FaultProxy, FaultRule } from '../support/fault-proxy.ts'

/** A file as plain as can be; it stays the same one when it gets another name, or none. */
interface PlainFile {
  text: string
}

/** Files by path. `F/` and `G/` are folders; others are in the root. */
type Model = Map<string, PlainFile>

const FOLDERS = ['F', 'G']
const SHORT_TIMEOUT_MS = 300
const file = fc.constantFrom('a', 'b', 'c.txt', 'a~', 'F/x', 'F/y', 'F/d/z', 'F/e/z', 'G/x')
/** Often content that was there before: the service gives equal content of a name the same id. */
const text = fc.oneof(
  fc.constantFrom('', 'once', 'again'),
  fc.string({ unit: 'grapheme-ascii', maxLength: 80 }),
)
const place = fc.nat({ max: 100 })

/** What happens to a drive: by its user, by another client, to its process. */
const operation = fc.oneof(
  fc.record({ op: fc.constant('hold open' as const), file, text }),
  fc.record({ op: fc.constant('write held' as const), text }),
  fc.record({ op: fc.constant('close held' as const) }),
  fc.record({ op: fc.constant('rename directory' as const) }),
  fc.record({ op: fc.constant('write' as const), file, text }),
  fc.record({ op: fc.constant('append' as const), file, text }),
  fc.record({ op: fc.constant('patch' as const), file, text, place }),
  fc.record({ op: fc.constant('truncate' as const), file, place }),
  fc.record({ op: fc.constant('read' as const), file }),
  fc.record({ op: fc.constant('read part' as const), file, place }),
  fc.record({ op: fc.constant('stat' as const), file }),
  fc.record({ op: fc.constant('list' as const) }),
  fc.record({ op: fc.constant('remove' as const), file }),
  fc.record({ op: fc.constant('rename' as const), file, to: file }),
  fc.record({ op: fc.constant('save by rename' as const), file, text }),
  fc.record({ op: fc.constant('save with backup' as const), file, text: fc.option(text) }),
  fc.record({ op: fc.constant('swap' as const), file, to: file }),
  fc.record({ op: fc.constant('there and back' as const), file, over: fc.option(file) }),
  fc.record({ op: fc.constant('out and back' as const), file, isStored: fc.boolean() }),
  fc.record({ op: fc.constant('touch' as const), file, place }),
  fc.record({ op: fc.constant('mode' as const), file }),
  fc.record({ op: fc.constant('read after remove' as const), file }),
  fc.record({ op: fc.constant('write by two' as const), file, text }),
  fc.record({ op: fc.constant('remove folder' as const), folder: fc.constantFrom(...FOLDERS) }),
  fc.record({ op: fc.constant('rename folder' as const) }),
  fc.record({ op: fc.constant('restore' as const) }),
  fc.record({ op: fc.constant('sync' as const) }),
  fc.record({ op: fc.constant('expire listing' as const) }),
  fc.record({ op: fc.constant('upload elsewhere' as const), text }),
  fc.record({ op: fc.constant('delete elsewhere' as const) }),
  fc.record({ op: fc.constant('remount' as const) }),
  fc.record({ op: fc.constant('kill' as const) }),
)

type Operation = typeof operation extends fc.Arbitrary<infer One> ? One : never

const inFolder = fc.constantFrom('F/x', 'F/y', 'G/x')
/** What makes folders, and gives them each other's names. */
const operationOfFolders = fc.oneof(
  fc.record({ op: fc.constant('write' as const), file: inFolder, text }),
  fc.record({ op: fc.constant('remove' as const), file: inFolder }),
  { weight: 2, arbitrary: fc.record({ op: fc.constant('rename folder' as const) }) },
)

/** What goes wrong with the next uploads, or deletions, that a drive sends. */
const trouble = fc.record({
  op: fc.constant('trouble' as const),
  method: fc.constantFrom('POST', 'DELETE'),
  times: fc.integer({ min: 1, max: 3 }),
  fault: fc.oneof(
    { weight: 2, arbitrary: fc.constant<FaultRule['fault']>({ loseAnswer: true }) },
    fc.constant<FaultRule['fault']>({ answer: { status: 503, body: '{"detail":"later"}' } }),
    fc.constant<FaultRule['fault']>({ cutRequestAfter: 100 }),
    fc.constant<FaultRule['fault']>({ answerLatencyMs: 150 }),
    // Longer than a drive of `inTrouble` waits.
    fc.constant<FaultRule['fault']>({ latencyMs: 2 * SHORT_TIMEOUT_MS }),
    fc.constant<FaultRule['fault']>({ silence: true }),
  ),
})

/** Uploads begin, and are looked for, between what is done. */
const pause = fc.record({ op: fc.constant('pause' as const), ms: fc.constantFrom(5, 40, 150) })

type Trouble = typeof trouble extends fc.Arbitrary<infer One> ? One : never
type Pause = typeof pause extends fc.Arbitrary<infer One> ? One : never

export const operations = fc.array(operation, { minLength: 5, maxLength: 25 })
export const operationsInTrouble = fc.array(
  fc.oneof(
    { weight: 1, arbitrary: trouble },
    { weight: 1, arbitrary: pause },
    { weight: 3, arbitrary: operationOfFolders },
    { weight: 3, arbitrary: operation },
  ),
  { minLength: 5, maxLength: 30 },
)

/** Of these all have to do with the account by the drive alone, and none waits for the service. */
const operationOfDrive = operation.filter(({ op }) => !op.endsWith('elsewhere') && op !== 'restore')
export const operationsListedLate = fc.array(
  fc.oneof(
    { weight: 2, arbitrary: pause },
    { weight: 1, arbitrary: operationOfFolders },
    { weight: 5, arbitrary: operationOfDrive },
  ),
  { minLength: 5, maxLength: 30 },
)

/** A drive whose folders are stored between what is done to them, and that has no patience. */
export const inTrouble = {
  writeBack: true,
  limits: { timeoutMs: SHORT_TIMEOUT_MS, cacheBytes: 1e8 },
  settings: { folderRestMs: 20 },
  tuning: {
    uploads: { ...TUNING.uploads, retryBaseMs: 200, retryMaxMs: 400, deletingMs: 200 },
  },
} satisfies Partial<DriveHome>

const LATE_MS = 60

/** The same, of a service that lists each change only later. */
export const listedLate = {
  writeBack: true,
  settings: { folderRestMs: 20, listingLagMs: 2 * LATE_MS },
} satisfies Partial<DriveHome>

/** As `run`, with a proxy before the account that lists late. */
export async function runListedLate(
  account: DriveHome,
  all: readonly (Operation | Pause)[],
  proxy: FaultProxy,
): Promise<void> {
  proxy.lagListing(LATE_MS)
  await run(account, all, proxy)
}

/** What waits for the service, and rejects while it is in trouble. */
const WAITING: ReadonlySet<string> = new Set(['sync', 'remount', 'out and back'])

/** Runs these on a new account of a service. With a proxy before it, what that harms is over before the end. */
export async function run(
  account: DriveHome,
  all: readonly (Operation | Trouble | Pause)[],
  proxy?: FaultProxy,
): Promise<void> {
  const home = proxy === undefined ? account : { ...account, url: proxy.url }
  const user = new User(home, account.url, await DriveInProcess.open(home))
  try {
    for (const each of all) {
      if (each.op === 'pause') await sleep(each.ms)
      else if (each.op === 'trouble') {
        const match = { method: each.method, path: /\/upload$|\/api\/bag$/ }
        proxy?.add({ match, times: each.times, fault: each.fault })
      } else {
        if (WAITING.has(each.op)) await endTrouble(proxy)
        await user.do(each)
      }
    }
    await endTrouble(proxy)
    await user.closeHeld()
    await user.check()
    await user.remount()
    await user.check()
  } finally {
    await user.drop()
  }
  await eventually(() => {
    if (proxy?.listsAll() === false) throw new Error('The listing lags.')
  })
  await checkElsewhere(home, user.model)
}

/** Nothing is harmed from now on, and a request that was is over. */
async function endTrouble(proxy: FaultProxy | undefined): Promise<void> {
  proxy?.clear()
  await eventually(() => {
    const isLeft = proxy?.requests.some(({ isOver }) => !isOver) === true
    if (isLeft) throw new Error('A request is under way.')
  })
}

/** Another machine, that knows nothing but the account, sees the same. Empty folders stay where they are. */
async function checkElsewhere(home: DriveHome, model: Model): Promise<void> {
  const other = await DriveInProcess.open({ ...home, dir: `${home.dir}-elsewhere` })
  try {
    const seen = Object.entries(await other.tree()).filter(([, content]) => content !== null)
    expect(Object.fromEntries(seen)).toEqual(plain(model))
  } finally {
    await other.drop()
    rmSync(`${home.dir}-elsewhere`, { recursive: true, force: true })
  }
}

function plain(model: Model): Record<string, string> {
  return Object.fromEntries(Array.from(model, ([path, { text }]) => [path, text]))
}

/** Does the same to a drive and to a map, and compares. */
class User {
  readonly model: Model = new Map()
  readonly #home: DriveHome
  /** For another machine, which has troubles of its own. */
  readonly #serviceUrl: string
  #drive: DriveInProcess
  #uploads = 0
  /** Every text that a file had. */
  readonly #texts = new Set<string>()
  #held: { readonly handle: HandleId; readonly file: PlainFile } | undefined

  constructor(home: DriveHome, serviceUrl: string, drive: DriveInProcess) {
    this.#home = home
    this.#serviceUrl = serviceUrl
    this.#drive = drive
  }

  async drop(): Promise<void> {
    await this.#drive.drop()
  }

  async check(): Promise<void> {
    const seen = Object.entries(await this.#drive.tree()).filter(([, content]) => content !== null)
    expect(Object.fromEntries(seen)).toEqual(plain(this.model))
    expect(this.#drive.outbox.damaged()).toEqual([])
  }

  async remount(): Promise<void> {
    await this.closeHeld()
    // A DELETE that comes late may take what the first try stored.
    await this.#drive.drain().catch(() => this.#drive.drain())
    await this.#again()
  }

  async #again(): Promise<void> {
    await this.#drive.drop()
    this.#drive = await DriveInProcess.open(this.#home)
  }

  async do(operation: Operation): Promise<void> {
    await this.#doOne(operation)
    for (const { text } of this.model.values()) this.#texts.add(text)
  }

  async #doOne(operation: Operation): Promise<void> {
    switch (operation.op) {
      case 'write':
        return this.#write(operation.file, operation.text)
      case 'append':
        return this.#patch(operation.file, operation.text, Infinity)
      case 'patch':
        return this.#patch(operation.file, operation.text, operation.place)
      case 'truncate':
        return this.#truncate(operation.file, operation.place)
      case 'read':
        return this.#read(operation.file)
      case 'read part':
        return this.#readPart(operation.file, operation.place)
      case 'stat':
        return this.#stat(operation.file)
      case 'list':
        return this.check()
      default:
        return this.#doMore(operation)
    }
  }

  async #doMore(operation: Operation): Promise<void> {
    switch (operation.op) {
      case 'remove':
        return this.#remove(operation.file)
      case 'rename':
        return this.#rename(operation.file, operation.to)
      case 'save by rename':
        return this.#save(operation.file, operation.text)
      case 'save with backup':
        return this.#saveWithBackup(operation.file, operation.text)
      case 'swap':
        return this.#swap(operation.file, operation.to)
      case 'there and back':
        return this.#moveThereAndBack(operation.file, operation.over)
      case 'out and back':
        return this.#moveOutAndBack(operation.file, operation.isStored)
      case 'touch':
        return this.#setAttributes(operation.file, { mtimeMs: operation.place * 1_000 })
      case 'mode':
        return this.#setAttributes(operation.file, { mode: 0o600 })
      case 'read after remove':
        return this.#readAfterRemove(operation.file)
      case 'write by two':
        return this.#writeByTwo(operation.file, operation.text)
      default:
        return this.#doElse(operation)
    }
  }

  async #doElse(operation: Operation): Promise<void> {
    switch (operation.op) {
      case 'remove folder':
        return this.#removeFolder(operation.folder)
      case 'rename folder':
        return this.#renameFolder()
      case 'restore':
        return this.#restore()
      case 'sync':
        await this.#drive.drive.commands.sync()
        return
      case 'expire listing':
        await this.#drive.listing.refreshNow()
        return
      case 'upload elsewhere':
        return this.#uploadElsewhere(operation.text)
      case 'delete elsewhere':
        return this.#deleteElsewhere()
      case 'remount':
        return this.remount()
      case 'kill':
        await this.closeHeld()
        return this.#again()
      default:
        return this.#doWithHeld(operation)
    }
  }

  async #doWithHeld(operation: Operation): Promise<void> {
    switch (operation.op) {
      case 'hold open':
        return this.#holdOpen(operation.file, operation.text)
      case 'write held':
        return this.#writeHeld(operation.text)
      case 'close held':
        return this.closeHeld()
      case 'rename directory':
        return this.#renameDirectory()
      default:
        throw new Error(`What is ${operation.op}?`)
    }
  }

  /** Makes the directories of a path, then the file. */
  async #create(path: string): Promise<HandleId> {
    const { drive } = this.#drive
    const names = path.split('/')
    for (let depth = 1; depth < names.length; depth += 1) {
      const { parent, name } = await this.#drive.parent(names.slice(0, depth).join('/'))
      await drive.makeDirectory(parent, name, 0o755).catch((error: unknown) => {
        if (!isDriveError(error, 'exists')) throw error
      })
    }
    const { parent, name } = await this.#drive.parent(path)
    return (await drive.create(parent, name, 0o644)).handle
  }

  async #put(handle: HandleId, content: string, position: number): Promise<void> {
    const { drive } = this.#drive
    if (content !== '') await drive.write(handle, Buffer.from(content), position)
  }

  async #close(handle: HandleId): Promise<void> {
    try {
      await this.#drive.drive.flush(handle)
    } finally {
      await this.#drive.drive.release(handle)
    }
  }

  async #openToWrite(path: string, truncate: boolean): Promise<HandleId> {
    if (!this.model.has(path)) return this.#create(path)
    return this.#drive.drive.open(await this.#drive.node(path), { writable: true, truncate })
  }

  #set(path: string, text: string): void {
    const file = this.model.get(path)
    if (file === undefined) this.model.set(path, { text })
    else file.text = text
  }

  async #write(path: string, content: string): Promise<void> {
    const handle = await this.#openToWrite(path, true)
    await this.#put(handle, content, 0)
    await this.#close(handle)
    this.#set(path, content)
  }

  async #holdOpen(path: string, content: string): Promise<void> {
    if (this.#held !== undefined) return
    const handle = await this.#openToWrite(path, false)
    if (!this.model.has(path)) this.#set(path, '')
    const file = this.model.get(path)
    if (file === undefined) throw new Error(`${path} was made.`)
    this.#held = { handle, file }
    await this.#writeHeld(content)
  }

  async #writeHeld(content: string): Promise<void> {
    if (this.#held === undefined) return
    const { handle, file } = this.#held
    await this.#put(handle, content, file.text.length)
    file.text += content
  }

  async closeHeld(): Promise<void> {
    const held = this.#held
    this.#held = undefined
    if (held !== undefined) await this.#close(held.handle)
  }

  async #patch(path: string, content: string, at: number): Promise<void> {
    const before = this.model.get(path)?.text ?? ''
    const position = Math.min(at, before.length)
    const handle = await this.#openToWrite(path, false)
    await this.#put(handle, content, position)
    await this.#close(handle)
    const after = before.slice(0, position) + content + before.slice(position + content.length)
    this.#set(path, after)
  }

  async #truncate(path: string, length: number): Promise<void> {
    const file = this.model.get(path)
    if (file === undefined) return
    await this.#drive.drive.truncate(await this.#drive.node(path), length)
    file.text = file.text.slice(0, length).padEnd(length, '\0')
  }

  async #read(path: string): Promise<void> {
    const content = this.model.get(path)?.text
    if (content === undefined) {
      await expect(this.#drive.read(path)).rejects.toMatchObject({ code: 'not-found' })
    } else expect(await this.#drive.read(path)).toBe(content)
  }

  async #readPart(path: string, position: number): Promise<void> {
    const content = this.model.get(path)?.text
    if (content === undefined) return
    const handle = await this.#drive.open(path)
    try {
      const buffer = Buffer.alloc(10)
      const count = await this.#drive.drive.read(handle, buffer, position)
      expect(buffer.subarray(0, count).toString()).toBe(content.slice(position, position + 10))
    } finally {
      await this.#drive.drive.release(handle)
    }
  }

  async #stat(path: string): Promise<void> {
    const content = this.model.get(path)?.text
    if (content === undefined) return
    const { size } = await this.#drive.drive.getAttributes(await this.#drive.node(path))
    expect(size).toBe(Buffer.byteLength(content))
  }

  async #setAttributes(path: string, changes: { mode?: number; mtimeMs?: number }): Promise<void> {
    if (!this.model.has(path)) return
    const node = await this.#drive.node(path)
    await this.#drive.drive.setAttributes(node, changes)
    expect(await this.#drive.drive.getAttributes(node)).toMatchObject(changes)
  }

  async #remove(path: string): Promise<void> {
    if (!this.model.has(path)) return
    const { parent, name } = await this.#drive.parent(path)
    await this.#drive.drive.unlink(parent, name)
    this.model.delete(path)
  }

  /** What mv does: between a folder and elsewhere it is a copy and a removal. */
  async #rename(from: string, to: string): Promise<void> {
    const file = this.model.get(from)
    if (file === undefined || from === to || !this.#hasParent(to)) return
    const source = await this.#drive.parent(from)
    const target = await this.#drive.parent(to)
    try {
      await this.#drive.drive.rename(source.parent, source.name, target.parent, target.name)
    } catch (error) {
      if (!isDriveError(error, 'cross-device')) throw error
      await this.#write(to, file.text)
      await this.#remove(from)
      return
    }
    this.model.delete(from)
    this.model.set(to, file)
  }

  #hasParent(path: string): boolean {
    const parent = path.slice(0, path.lastIndexOf('/') + 1)
    return parent === '' || [...this.model.keys()].some((other) => other.startsWith(parent))
  }

  /** What an editor does: a temporary file, then a rename over the old one. */
  async #save(path: string, content: string): Promise<void> {
    if (!this.#hasParent(path)) return
    const folder = path.slice(0, path.lastIndexOf('/') + 1)
    const temporary = `${folder}.goutputstream-ABC123`
    const handle = await this.#create(temporary)
    await this.#put(handle, content, 0)
    await this.#close(handle)
    const source = await this.#drive.parent(temporary)
    const target = await this.#drive.parent(path)
    await this.#drive.drive.rename(source.parent, source.name, target.parent, target.name)
    this.model.set(path, { text: content })
  }

  /** What other editors do; without a text the content stays as it was. */
  async #saveWithBackup(path: string, text: string | null): Promise<void> {
    const content = this.model.get(path)?.text
    if (content === undefined) return
    await this.#rename(path, `${path}~`)
    await this.#write(path, text ?? content)
    await this.#remove(`${path}~`)
  }

  async #swap(one: string, other: string): Promise<void> {
    if (!this.model.has(one) || !this.model.has(other) || one === other) return
    await this.#rename(one, 'between')
    await this.#rename(other, one)
    await this.#rename('between', other)
  }

  /** Each file ends with its own name and content; another may have had the name meanwhile. */
  async #moveThereAndBack(path: string, over: string | null): Promise<void> {
    if (!this.model.has(path) || over === path) return
    const backup = `${path}~`
    await this.#rename(path, backup)
    if (over !== null && over !== backup && this.model.has(over)) {
      await this.#rename(over, path)
      await this.#rename(path, over)
    }
    await this.#rename(backup, path)
  }

  /** Out of a folder, into which nothing else comes: its zip becomes what it was. */
  async #moveOutAndBack(path: string, isStored: boolean): Promise<void> {
    if (!this.model.has(path)) return
    if (isStored) await this.#drive.drive.commands.sync()
    const source = await this.#drive.parent(path)
    const outside = await this.#drive.parent('between')
    await this.#drive.drive.rename(source.parent, source.name, outside.parent, outside.name)
    await this.#drive.drive.rename(outside.parent, outside.name, source.parent, source.name)
    if (isStored) await this.#drive.drive.commands.sync()
  }

  async #readAfterRemove(path: string): Promise<void> {
    const content = this.model.get(path)?.text
    if (content === undefined) return
    const handle = await this.#drive.open(path)
    try {
      await this.#remove(path)
      expect(await this.#drive.readAll(handle)).toBe(content)
    } finally {
      await this.#drive.drive.release(handle)
    }
  }

  async #writeByTwo(path: string, content: string): Promise<void> {
    const one = await this.#openToWrite(path, true)
    const other = await this.#drive.drive.open(await this.#drive.node(path), {
      writable: true,
      truncate: false,
    })
    await this.#put(one, content, 0)
    await this.#put(other, 'second', content.length)
    await this.#close(one)
    await this.#close(other)
    this.#set(path, `${content}second`)
  }

  async #removeFolder(folder: string): Promise<void> {
    const inside = [...this.model.keys()].filter((path) => path.startsWith(`${folder}/`))
    if (inside.length === 0) return
    const { drive } = this.#drive
    for (const path of inside) await this.#remove(path)
    const top = await this.#drive.parent(folder)
    const node = await this.#drive.node(folder)
    for (const { name } of await drive.readDirectory(node)) await drive.removeDirectory(node, name)
    await drive.removeDirectory(top.parent, top.name)
  }

  /** One folder gets the name of the other where that has no files: an empty one left of it is in the way no more. */
  async #renameFolder(): Promise<void> {
    const has = (folder: string): boolean =>
      [...this.model.keys()].some((path) => path.startsWith(`${folder}/`))
    const [from, to] = has('F') ? ['F', 'G'] : ['G', 'F']
    const isDeep = [...this.model.keys()].some((path) => path.endsWith('/z'))
    if (!has(from) || has(to) || isDeep) return
    const { parent } = await this.#drive.parent(from)
    try {
      await this.#drive.drive.rename(parent, from, parent, to)
    } catch (error) {
      // A directory may be left in it.
      if (!isDriveError(error, 'not-empty')) throw error
      return
    }
    this.#moveAll(`${from}/`, `${to}/`)
  }

  #moveAll(from: string, to: string): void {
    for (const [path, file] of [...this.model]) {
      if (!path.startsWith(from)) continue
      this.model.set(to + path.slice(from.length), file)
      this.model.delete(path)
    }
  }

  async #renameDirectory(): Promise<void> {
    if (!this.model.has('F/d/z') || this.model.has('F/e/z')) return
    const { parent } = await this.#drive.parent('F/d')
    await this.#drive.drive.rename(parent, 'd', parent, 'e')
    this.#moveAll('F/d/', 'F/e/')
  }

  /** What is in the trash is content that was there, and comes back to the byte. */
  async #restore(): Promise<void> {
    const { trash } = this.#drive.drive.commands
    const item = trash.items().find(({ name, isFolder }) => !isFolder && !this.model.has(name))
    if (item === undefined) return
    await trash.restore(item.bagId)
    const text = await this.#drive.read(item.name)
    expect([...this.#texts]).toContain(text)
    this.model.set(item.name, { text })
  }

  async #call(path: string, init: RequestInit): Promise<Response> {
    const headers = { authorization: `Bearer ${this.#home.token}` }
    const answer = await fetch(this.#serviceUrl + path, { ...init, headers })
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`)
    return answer
  }

  async #uploadElsewhere(content: string): Promise<void> {
    this.#uploads += 1
    const name = `elsewhere-${this.#uploads}.txt`
    const form = new FormData()
    form.append('file', new Blob([content]), name)
    await this.#call('/api/files/upload', { method: 'POST', body: form })
    await this.#drive.listing.refreshNow()
    this.model.set(name, { text: content })
  }

  async #deleteElsewhere(): Promise<void> {
    const name = [...this.model.keys()].find((path) => path.startsWith('elsewhere-'))
    if (name === undefined) return
    const answer = await this.#call('/api/user/files_list', {})
    const records = (await answer.json()) as { filename: string; bag_id: string }[]
    const bagId = records.find(({ filename }) => filename === name)?.bag_id ?? ''
    const body = new URLSearchParams({ bag_id: bagId })
    await this.#call('/api/bag', { method: 'DELETE', body })
    await this.#drive.listing.refreshNow()
    this.model.delete(name)
  }
}
