import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { DriveInProcess, type DriveHome } from './drive-in-process.ts'
import { TestService } from './mounted-drive.ts'

type Options = Partial<Pick<DriveHome, 'writeBack' | 'limits' | 'settings' | 'tuning' | 'clock'>>

/** An account at a service of its own, and drives of it in this process. All of it ends with the test that starts it. */
export class AccountInProcess {
  readonly service: TestService
  readonly dir: string
  readonly #drives: DriveInProcess[] = []

  private constructor(dir: string, service: TestService) {
    this.dir = dir
    this.service = service
  }

  static async start(): Promise<AccountInProcess> {
    const dir = mkdtempSync(join(tmpdir(), 'bagfs-account-'))
    const account = new AccountInProcess(dir, await TestService.start(join(dir, 'service')))
    onTestFinished(() => account.#end())
    return account
  }

  /** In mode back, unless the options say otherwise. The same state is the same machine. */
  async open(options: Options = {}, state = 'state'): Promise<DriveInProcess> {
    const { proxy, token } = this.service
    const at = { url: proxy.url, token, dir: join(this.dir, state) }
    const drive = await DriveInProcess.open({ ...at, writeBack: true, ...options })
    this.#drives.push(drive)
    return drive
  }

  async #end(): Promise<void> {
    for (const drive of this.#drives) await drive.drop()
    await this.service.close()
    rmSync(this.dir, { recursive: true, force: true })
  }
}
