import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { silentLogger } from '../../src/domain/logger.ts'
import { startLocalService, type LocalService } from '../../src/local-service/server.ts'

/** An account of its own for each run of a model, and where a machine keeps its state. */
export interface ModelHome {
  readonly url: string
  readonly token: string
  readonly dir: string
}

/** Accounts of one service, and the directories of their machines. */
export class ModelAccounts {
  readonly #dir: string
  readonly #service: LocalService
  readonly #accounts: number

  private constructor(dir: string, service: LocalService, accounts: number) {
    this.#dir = dir
    this.#service = service
    this.#accounts = accounts
  }

  static async start(accounts: number): Promise<ModelAccounts> {
    const dir = mkdtempSync(join(tmpdir(), 'bagfs-model-'))
    const tokens = Array.from({ length: accounts }, (_, at) => `token-${at}`)
    const settings = { dataDir: join(dir, 'service'), tokens }
    const service = await startLocalService(settings, { log: silentLogger })
    return new ModelAccounts(dir, service, accounts)
  }

  /** Runs that shrink a failure are more than there are accounts. */
  home(number: number): ModelHome {
    const token = `token-${number % this.#accounts}`
    return { url: this.#service.url, token, dir: join(this.#dir, `state-${number}`) }
  }

  async close(): Promise<void> {
    await this.#service.close()
    rmSync(this.#dir, { recursive: true, force: true })
  }
}
