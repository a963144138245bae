import {
  closeSync,
  constants as fsConstants,
  openSync,
  readFileSync,
  readSync,
  renameSync,
  rmSync,
  writeSync,
} from 'node:fs'
import { get } from 'node:http'
import { join } from 'node:path'
import Fuse from 'fuse-native'

/**
 * The least that a drive on fuse-native can be: a directory of files whose content is fetched when they are
 * first opened, written to a file on the disk, and read from there. It checks, remembers, evicts and promises
 * nothing: what it takes, Node and fuse-native as they come take. Arguments: mountpoint, directory of contents,
 * file with the names.
 */

/** A file that the server has: `url` and `authorization` as curl would use them. */
export interface BareFile {
  readonly name: string
  readonly size: number
  readonly url: string
  readonly authorization: string
}

interface Entry {
  readonly name: string
  size: number
  readonly remote?: BareFile
  content: Content | undefined
}

/** A file on the disk that grows while it is fetched. */
class Content {
  readonly fd: number
  present = 0
  #waiting: (() => void)[] = []

  constructor(path: string) {
    this.fd = openSync(path, 'w+')
  }

  add(chunk: Buffer): void {
    writeSync(this.fd, chunk, 0, chunk.length, this.present)
    this.present += chunk.length
    const waiting = this.#waiting
    this.#waiting = []
    for (const look of waiting) look()
  }

  /** Calls `look` now, or as often as more has come, until it says that it is content. */
  until(look: () => boolean): void {
    if (look()) return
    this.#waiting.push(() => {
      this.until(look)
    })
  }
}

const [mountpoint = '', store = '', list = ''] = process.argv.slice(2)
const names = JSON.parse(readFileSync(list, 'utf8')) as BareFile[]
const entries = new Map<string, Entry>()
for (const remote of names) {
  entries.set(`/${remote.name}`, {
    name: remote.name,
    size: remote.size,
    remote,
    content: undefined,
  })
}
/** By handle. */
const opened = new Map<number, Entry>()
let lastHandle = 0

function opensEntry(entry: Entry): number {
  entry.content ??= fetched(entry)
  lastHandle += 1
  opened.set(lastHandle, entry)
  return lastHandle
}

function fetched({ name, remote }: Entry): Content {
  const content = new Content(join(store, name))
  if (remote === undefined) return content
  get(remote.url, { headers: { authorization: remote.authorization } }, (answer) => {
    answer.on('data', (chunk: Buffer) => {
      content.add(chunk)
    })
  })
  return content
}

const startedMs = Date.now()
function stat(mode: number, size: number): Fuse.Stat {
  const times = { atime: startedMs, mtime: startedMs, ctime: startedMs }
  const counts = { size, nlink: 1, ino: 0, blksize: 4096, blocks: Math.ceil(size / 512) }
  return { mode, uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0, ...counts, ...times }
}

const operations: Partial<Fuse.PathHandlers> = {
  getattr: (path, reply) => {
    const entry = entries.get(path)
    if (entry !== undefined) reply(0, stat(fsConstants.S_IFREG | 0o644, entry.size))
    else if (path === '/') reply(0, stat(fsConstants.S_IFDIR | 0o755, 0))
    else reply(-2)
  },
  readdir: (_path, reply) => {
    reply(
      0,
      [...entries.values()].map(({ name }) => name),
    )
  },
  open: (path, _flags, reply) => {
    const entry = entries.get(path)
    if (entry === undefined) reply(-2)
    else reply(0, opensEntry(entry))
  },
  create: (path, _mode, reply) => {
    const entry = { name: path.slice(1), size: 0, content: undefined }
    entries.set(path, entry)
    reply(0, opensEntry(entry))
  },
  read: (_path, handle, buffer, length, position, reply) => {
    const entry = opened.get(handle)
    const content = entry?.content
    if (content === undefined) {
      reply(-9)
      return
    }
    content.until(() => {
      if (content.present < Math.min(position + length, entry?.size ?? 0)) return false
      reply(readSync(content.fd, buffer, 0, length, position))
      return true
    })
  },
  write: (_path, handle, buffer, length, position, reply) => {
    const entry = opened.get(handle)
    if (entry?.content === undefined) {
      reply(-9)
      return
    }
    const count = writeSync(entry.content.fd, buffer, 0, length, position)
    entry.size = Math.max(entry.size, position + count)
    entry.content.present = entry.size
    reply(count)
  },
  release: (_path, handle, reply) => {
    opened.delete(handle)
    reply(0)
  },
  truncate: (path, _size, reply) => {
    reply(entries.has(path) ? 0 : -2)
  },
  rename: (from, to, reply) => {
    const entry = entries.get(from)
    if (entry === undefined) {
      reply(-2)
      return
    }
    renameSync(join(store, from), join(store, to))
    entries.delete(from)
    entries.set(to, { ...entry, name: to.slice(1) })
    reply(0)
  },
  unlink: (path, reply) => {
    const entry = entries.get(path)
    if (entry?.content !== undefined) closeSync(entry.content.fd)
    rmSync(join(store, path), { force: true })
    entries.delete(path)
    reply(0)
  },
}

const fuse = new Fuse(mountpoint, operations, {
  timeout: false,
  fsname: 'bare,big_writes,atomic_o_trunc,noatime',
  autoCache: true,
  defaultPermissions: true,
})
fuse.mount((error) => {
  if (error !== null) throw error
})
process.once('SIGTERM', () => {
  fuse.close(() => process.exit())
})
