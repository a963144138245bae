import type { Clock } from '../domain/clock.ts'
import type { Intent } from '../intents/intent.ts'
import type { Logger } from '../domain/logger.ts'
import type { StorageService } from '../service/storage-service.ts'
import { failedForWantOfService } from './failure.ts'

interface OutagePollerDeps {
  readonly outbox: { intents(): readonly Intent[]; onChange(listener: () => void): () => void }
  readonly service: Pick<StorageService, 'getAccount'>
  readonly clock: Clock
  readonly log: Logger
}

const PAUSE_MS = 10_000

/**
 * Asks the service every few seconds while changes wait for nothing but the service or its token. The
 * changes themselves are tried again only minutes later, and other requests may not come meanwhile. The
 * breaker in front of the service sees the answers and tells the uploader when the service is back.
 */
export class OutagePoller {
  readonly #deps: OutagePollerDeps
  readonly #stop: () => void
  readonly #closing = new AbortController()
  #cancel: (() => void) | undefined

  constructor(deps: OutagePollerDeps) {
    this.#deps = deps
    this.#stop = deps.outbox.onChange(() => {
      this.#askLater()
    })
    this.#askLater()
  }

  close(): Promise<void> {
    this.#stop()
    this.#closing.abort()
    this.#cancel?.()
    return Promise.resolve()
  }

  #askLater(): void {
    if (this.#closing.signal.aborted) return
    this.#cancel ??= this.#deps.clock.after(PAUSE_MS, () => {
      this.#ask()
    })
  }

  #ask(): void {
    const { outbox, service, log } = this.#deps
    if (!outbox.intents().some(failedForWantOfService)) {
      this.#cancel = undefined
      return
    }
    service
      .getAccount({ signal: this.#closing.signal })
      .catch((error: unknown) => {
        log.debug({ error: String(error) }, 'The service is not back yet.')
      })
      .finally(() => {
        this.#cancel = undefined
        this.#askLater()
      })
  }
}
