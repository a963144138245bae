import { InvalidArgumentError, Option } from '@commander-js/extra-typings'
import { chooseServiceUrl, isUnencrypted } from '../config/service-url.ts'
import { readToken } from '../config/token.ts'
import { systemClock } from '../domain/clock.ts'
import { isDriveError } from '../domain/errors.ts'
import type { Logger } from '../domain/logger.ts'
import type { StorageService } from '../service/storage-service.ts'
import type { CommandContext } from './context.ts'
import { createStderrLogger } from './logging.ts'
import { listenForStop } from './signals.ts'

/** The options of every command that talks to an account without a mount. */
export interface AccountFlags {
  readonly url?: string
  readonly tokenFile?: string
}

export interface AccountAccess {
  readonly service: StorageService
  readonly log: Logger
  /** Aborted by Ctrl-C. */
  readonly signal: AbortSignal
  /** How long content may come at less than the least speed, in ms. */
  readonly silenceMs: number
}

/** As the mount's, with the timeout that it has by itself. */
const SILENCE_MS = 30_000

export const urlOption = (): Option<'--url <url>'> =>
  new Option('--url <url>', 'base URL of the service (default: BAGFS_URL)')

export const tokenFileOption = (): Option<'--token-file <file>'> =>
  new Option('--token-file <file>', 'file that holds the API token (default: BAGFS_TOKEN)')

/** Finds URL and token of a real account, and warns of what puts the token at risk. */
export async function chooseAccount(
  context: CommandContext,
  flags: AccountFlags,
): Promise<{ url: string; token: string }> {
  const { output, environment } = context
  const url = chooseServiceUrl(flags.url, environment.url)
  if (isUnencrypted(url))
    output.warn(`${url} is not encrypted; others on the network can read the token.`)
  const { tokenFile } = flags
  const { token: environmentToken } = environment
  const token = await readToken(
    {
      ...(tokenFile === undefined ? {} : { tokenFile }),
      ...(environmentToken === undefined ? {} : { environmentToken }),
    },
    output.warn,
  )
  return { url, token }
}

/** Runs a command on the account; Ctrl-C aborts it, and the connections are closed in any case. */
export async function withAccount<T>(
  context: CommandContext,
  flags: AccountFlags,
  task: (access: AccountAccess) => Promise<T>,
): Promise<T> {
  const { url, token } = await chooseAccount(context, flags)
  const log = createStderrLogger(context.output, [token])
  // The HTTP client takes long to load, and commands that only read options need it not.
  const { createHttpService } = await import('../service/http-service.ts')
  const service = createHttpService({ log, clock: systemClock }, { baseUrl: url, token })
  const signals = listenForStop()
  try {
    return await task({ service, log, signal: signals.stop, silenceMs: SILENCE_MS })
  } finally {
    signals.ignore()
    await service.close()
  }
}

/** Lets a parser that rejects with `usage` speak for an option; commander adds the option's name. */
export function asOptionParser<T>(parse: (text: string) => T): (text: string) => T {
  return (text) => {
    try {
      return parse(text)
    } catch (error) {
      if (!isDriveError(error, 'usage')) throw error
      throw new InvalidArgumentError([error.message, error.facts.hint ?? ''].join(' ').trim())
    }
  }
}
