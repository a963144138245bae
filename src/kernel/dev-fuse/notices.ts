import type { NodeId } from '../../domain/ids.ts'
import type { Logger } from '../../domain/logger.ts'
import type { Channel } from './channel.ts'
import { encodeNotice } from './encode-reply.ts'
import type { KnownName } from './lookups.ts'
import { NOTIFY_INVAL_ENTRY, NOTIFY_INVAL_INODE } from './structures.ts'

const INVAL_INODE = 2
const INVAL_ENTRY = 3
/** In the place of an offset: the attributes only, the content stays. */
const NO_CONTENT = -1

/** What the kernel is told unasked. */
export class Notices {
  readonly #channel: Channel
  readonly #log: Logger

  constructor(channel: Channel, log: Logger) {
    this.#channel = channel
    this.#log = log
  }

  /** Resolves when the kernel has forgotten the attributes of a node: it asks before it uses its size again. */
  async forgetAttributes(node: NodeId): Promise<void> {
    const notice = NOTIFY_INVAL_INODE.encode({ node, offset: NO_CONTENT, length: 0 })
    await this.#channel.notify(encodeNotice(INVAL_INODE, [notice]))
  }

  /**
   * The kernel looks for the name again at its next use. It waits for the directory, which a request that is not
   * answered yet may hold: never wait for this before an answer.
   */
  forgetName({ parent, name }: KnownName): void {
    const text = Buffer.from(name)
    const notice = NOTIFY_INVAL_ENTRY.encode({ parent, nameLength: text.length, flags: 0 })
    const parts = [notice, text, Buffer.alloc(1)]
    this.#channel.notify(encodeNotice(INVAL_ENTRY, parts)).catch((error: unknown) => {
      this.#log.warn({ error: String(error) }, 'The kernel takes no notice.')
    })
  }
}
