import type { Clock } from '../../domain/clock.ts'
import type { NodeId } from '../../domain/ids.ts'
import type { Logger } from '../../domain/logger.ts'
import type { Channel } from './channel.ts'
import { encodeNotice } from './encode-reply.ts'
import type { NamePlace } from './node-ids.ts'
import { NOTIFY_INVAL_ENTRY, NOTIFY_INVAL_INODE } from './structures.ts'

const INVAL_INODE = 2
const INVAL_ENTRY = 3
/** In the place of an offset: the attributes only, the content stays. */
const NO_CONTENT = -1
/** Flag of INVAL_ENTRY: the name is asked for before its next use, and stays that of a program which is in it. */
const EXPIRE_ONLY = 1

interface NoticesDeps {
  readonly channel: Channel
  readonly clock: Clock
  readonly log: Logger
  /** True while a request waits that the kernel may keep this directory locked for. */
  readonly isHeld: (directory: NodeId) => boolean
}

/** What the kernel is told unasked. */
export class Notices {
  readonly #deps: NoticesDeps
  /** Whether the kernel knows of EXPIRE_ONLY. */
  mayExpire = false
  /** The last notice of the attributes of each node while it is under way; each removes itself. */
  readonly #quick = new Map<NodeId, Promise<void>>()
  readonly #slow: (readonly Uint8Array[])[] = []
  /** Names that wait until their directories are free; `goOn` and `takeBack` remove. */
  readonly #heldBack = new Map<string, NamePlace>()
  #slowly: Promise<void> | undefined
  #pages: Promise<void> = Promise.resolve()

  constructor(deps: NoticesDeps) {
    this.#deps = deps
  }

  /**
   * Resolves when the kernel has forgotten the attributes of a node, and no such notice is under way any more: it asks
   * before it uses the size again, and refuses an answer that a notice overtakes.
   */
  async forgetAttributes(node: NodeId): Promise<void> {
    const notice = encodeNotice(INVAL_INODE, [
      NOTIFY_INVAL_INODE.encode({ node, offset: NO_CONTENT, length: 0 }),
    ])
    const notify = () => this.#deps.channel.notify(notice)
    const before = this.#quick.get(node)
    const told = before === undefined ? notify() : before.then(notify, notify)
    this.#quick.set(node, told)
    try {
      await told
    } finally {
      if (this.#quick.get(node) === told) this.#quick.delete(node)
    }
  }

  /**
   * Resolves when the kernel has written what programs changed in its pages of a file, from `offset` on, and has none of them
   * any more. One at a time: it waits for pages that are being read or written, and each such wait keeps a thread that
   * answering these may need.
   */
  takePages(node: NodeId, offset: number): Promise<void> {
    const notice = NOTIFY_INVAL_INODE.encode({ node, offset, length: 0 })
    const notify = () => this.#deps.channel.notify(encodeNotice(INVAL_INODE, [notice]))
    this.#pages = this.#pages.then(notify)
    return this.#pages
  }

  /** The attributes, and the names that the kernel has read of a directory. */
  forgetDirectory(node: NodeId): void {
    const notice = NOTIFY_INVAL_INODE.encode({ node, offset: 0, length: 0 })
    this.#queue(encodeNotice(INVAL_INODE, [notice]))
  }

  /**
   * The kernel looks for the name again at its next use. It takes the lock of the directory for it, and a thread that waits
   * for that cannot be killed: were the drive killed meanwhile, the request that has the lock would never end. So this
   * waits while such a request is known.
   */
  forgetName(place: NamePlace): void {
    if (this.#deps.isHeld(place.parent)) this.#heldBack.set(keyOf(place), place)
    else this.#forgetName(place)
  }

  /** The kernel was told what the name means now. */
  takeBack(place: NamePlace): void {
    this.#heldBack.delete(keyOf(place))
  }

  /** A request was answered: its directories may be free. */
  goOn(): void {
    for (const [key, place] of this.#heldBack) {
      if (this.#deps.isHeld(place.parent)) continue
      this.#heldBack.delete(key)
      this.#forgetName(place)
    }
  }

  #forgetName({ parent, name }: NamePlace): void {
    const text = Buffer.from(name)
    const flags = this.mayExpire ? EXPIRE_ONLY : 0
    const notice = NOTIFY_INVAL_ENTRY.encode({ parent, nameLength: text.length, flags })
    this.#queue(encodeNotice(INVAL_ENTRY, [notice, text, Buffer.alloc(1)]))
  }

  /** True when the kernel has heard all. */
  get isQuiet(): boolean {
    return this.#quick.size === 0 && this.#slowly === undefined
  }

  /** Resolves when the kernel has heard all that it was told so far, or after `ms`. */
  async heard(ms: number): Promise<void> {
    const { clock } = this.#deps
    let cancel = (): void => undefined
    const enough = new Promise<void>((resolve) => {
      cancel = clock.after(ms, resolve)
    })
    await Promise.race([Promise.all([...this.#quick.values(), this.#slowly]), enough])
    cancel()
  }

  /**
   * One at a time: the kernel may take the lock of a directory or of a page for it, which a request holds that is not
   * answered yet. Each such wait keeps a thread that other work may need.
   */
  #queue(notice: readonly Uint8Array[]): void {
    this.#slow.push(notice)
    this.#slowly ??= this.#tellSlow()
  }

  async #tellSlow(): Promise<void> {
    try {
      // What comes meanwhile is told, too.
      for (const told of this.#slow) await this.#deps.channel.notify(told)
    } catch (error) {
      this.#deps.log.warn({ error: String(error) }, 'The kernel takes no notice.')
    } finally {
      this.#slow.length = 0
      this.#slowly = undefined
    }
  }
}

function keyOf({ parent, name }: NamePlace): string {
  return `${parent}/${name}`
}
