import type { Clock } from '../domain/clock.ts'
import type { Intent } from '../intents/intent.ts'
import type { Logger } from '../domain/logger.ts'
import type { DriveService } from '../service/drive-service.ts'
import { failedForWantOfService } from './failure.ts'

interface LookoutDeps {
  readonly outbox: { intents(): readonly Intent[]; onChange(listener: () => void): () => void }
  readonly service: Pick<DriveService, 'getAccount'>
  readonly clock: Clock
  readonly log: Logger
}

const PAUSE_MS = 10_000

/**
 * While changes wait for nothing but the service or its token, asks now and then: the changes themselves
 * are tried again minutes later only, and nobody else may look meanwhile. Who is before the service (its
 * breaker) hears the answers, and tells the uploader when it is back.
 */
export class Lookout {
  readonly #deps: LookoutDeps
  readonly #stop: () => void
  readonly #closing = new AbortController()
  #cancel: (() => void) | undefined

  constructor(deps: LookoutDeps) {
    this.#deps = deps
    this.#stop = deps.outbox.onChange(() => {
      this.#lookLater()
    })
    this.#lookLater()
  }

  close(): Promise<void> {
    this.#stop()
    this.#closing.abort()
    this.#cancel?.()
    return Promise.resolve()
  }

  #lookLater(): void {
    if (this.#closing.signal.aborted) return
    this.#cancel ??= this.#deps.clock.after(PAUSE_MS, () => {
      this.#look()
    })
  }

  #look(): void {
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
        this.#lookLater()
      })
  }
}
