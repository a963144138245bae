import { isDriveError } from '../domain/errors.ts'
import type { Growth } from '../domain/growth.ts'
import type { PutIntent } from '../intents/intent.ts'
import type { Logger } from '../domain/logger.ts'
import { deferred } from './deferred.ts'
import type { GrowingContent } from './ports.ts'

/** Sends content that grows, and confirms the put with what `released` answers. */
type Send = (
  zip: GrowingContent,
  growth: Growth,
  released: () => Promise<PutIntent>,
) => Promise<PutIntent>

/**
 * The upload of a zip that is still being packed. It gives all but the end away, and that only when the put
 * tells the disk of the whole zip: until then a kill leaves nothing at the service.
 */
export class EarlyUpload {
  readonly #send: Send
  readonly #log: Logger
  readonly #released = deferred()
  #staged: PutIntent | undefined
  #confirmed: Promise<PutIntent> | undefined
  #failure: { readonly error: unknown } | undefined
  #length: number | undefined

  constructor(send: Send, log: Logger) {
    this.#send = send
    this.#log = log
  }

  begin(zip: GrowingContent): void {
    this.#length = zip.length
    const growth: Growth = {
      reached: (bytes) => zip.reached(bytes),
      released: () => this.#released.promise,
    }
    this.#confirmed = this.#send(zip, growth, () => this.#whenReleased())
    this.#confirmed.catch((error: unknown) => {
      this.#failure = { error }
    })
  }

  /** True while it may come to its end. */
  get isUnderWay(): boolean {
    return this.#confirmed !== undefined && this.#failure === undefined
  }

  /**
   * Lets it come to its end with what is staged now, and answers the put as it is then. Undefined when nothing was
   * sent, or that broke off without an answer.
   */
  async finish(staged: PutIntent): Promise<PutIntent | undefined> {
    if (this.#confirmed === undefined) return undefined
    if (this.#failure !== undefined) {
      const { error } = this.#failure
      throwIfAnswered(error)
      this.#log.info({ error: String(error) }, 'A zip that was sent early is sent once more.')
      return undefined
    }
    if (staged.content.length !== this.#length) {
      await this.stop(new RangeError('The zip has not the length that was expected.'))
      return undefined
    }
    this.#staged = staged
    this.#released.resolve()
    return this.#confirmed
  }

  /** Breaks it off before its end; resolves when nothing goes on. */
  async stop(reason: unknown): Promise<void> {
    this.#released.reject(reason)
    await this.#confirmed?.catch(() => undefined)
  }

  async #whenReleased(): Promise<PutIntent> {
    await this.#released.promise
    if (this.#staged === undefined) throw new RangeError('It is released, and nothing is staged.')
    return this.#staged
  }
}

/** What the service said counts; when it said nothing, the whole zip is sent as any other content. */
function throwIfAnswered(error: unknown): void {
  if (isDriveError(error) && error.facts.status !== undefined) throw error
}
