import type { Clock } from '../domain/clock.ts'
import type { Intent } from '../domain/intent.ts'
import type { DriveService } from '../service/drive-service.ts'
import { failedForWantOfService } from './failure.ts'

interface LookoutDeps {
  readonly outbox: { intents(): readonly Intent[]; onChange(listener: () => void): () => void }
  readonly service: Pick<DriveService, 'getAccount'>
  readonly clock: Clock
  /** Told when the service answers again, or takes the token again. */
  readonly onBack: () => void
}

const PAUSE_MS = 10_000

/**
 * While changes wait for nothing but the service or its token, asks now and then whether that is back: the
 * changes themselves are tried again minutes later only, and nobody else may look meanwhile.
 */
export class Lookout {
  readonly #deps: LookoutDeps
  readonly #stop: () => void
  readonly #closing = new AbortController()
  #cancel: (() => void) | undefined
  #wasAway = false

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
      this.#look().catch(never)
    })
  }

  async #look(): Promise<void> {
    const isWanted = this.#deps.outbox.intents().some(failedForWantOfService)
    if (isWanted) await this.#ask()
    else this.#wasAway = false
    this.#cancel = undefined
    if (isWanted) this.#lookLater()
  }

  async #ask(): Promise<void> {
    const { service, onBack } = this.#deps
    try {
      await service.getAccount({ signal: this.#closing.signal })
    } catch {
      this.#wasAway = true
      return
    }
    // Changes that fail although the service is there have their own pace.
    if (this.#wasAway && !this.#closing.signal.aborted) onBack()
    this.#wasAway = false
  }
}

/** A look that fails is no error. */
const never = (): void => undefined
