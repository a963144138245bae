import { writeFileAtomic } from '../disk/atomic-file.ts'
import type { Logger } from '../domain/logger.ts'

interface SavedBehindDeps {
  readonly log: Logger
}

interface SavedBehindSettings {
  readonly path: string
  /** What the log tells of what cannot be written, in one sentence. */
  readonly failed: string
  /** Whether it is to survive a power cut, or only a kill of this process. */
  readonly durable: boolean
}

/** A JSON file of what can be learned again, or is promised to no program: written behind, in order. */
export class SavedBehind {
  readonly #deps: SavedBehindDeps
  readonly #settings: SavedBehindSettings
  #saving: Promise<void> = Promise.resolve()

  constructor(deps: SavedBehindDeps, settings: SavedBehindSettings) {
    this.#deps = deps
    this.#settings = settings
  }

  save(value: object): void {
    const { path, failed, durable } = this.#settings
    const text = `${JSON.stringify(value)}\n`
    this.#saving = this.#saving
      .then(() => writeFileAtomic(path, text, { durable }))
      .catch((error: unknown) => {
        this.#deps.log.warn({ error: String(error) }, failed)
      })
  }

  /** Resolves when all is on disk, as far as it can be. */
  async close(): Promise<void> {
    await this.#saving
  }
}
