import { resolve } from 'node:path'
import { InvalidArgumentError, Option } from '@commander-js/extra-typings'
import type { MountFlags } from '../config/options.ts'
import { EXAMPLE_URL, isUnencrypted, parseServiceUrl } from '../config/service-url.ts'
import { checkToken, type TokenPlace } from '../config/token.ts'
import { systemClock } from '../domain/clock.ts'
import { DriveError, isDriveError } from '../domain/errors.ts'
import type { Logger } from '../domain/logger.ts'
import { chooseOptions, type ChosenOptions, type ChosenToken } from '../profiles/choose-options.ts'
import { readToken } from '../profiles/tokens.ts'
import type { StorageService } from '../service/storage-service.ts'
import { recallAuthHeader } from '../state/accounts.ts'
import type { CommandContext } from './context.ts'
import { localDataDir, stateDirOf } from './drive-dirs.ts'
import { keepLocalToken } from './local-token.ts'
import { createStderrLogger } from './logging.ts'
import { namingLogin, serviceKeyOf, type ServiceChoice } from './mount-job.ts'
import { listenForStop } from './signals.ts'

/** The options of every command that talks to an account without a mount. */
export interface AccountFlags {
  readonly url?: string
  readonly tokenFile?: string
  readonly profile?: string
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

export const urlOption = () =>
  new Option(
    '--url <url>',
    'base URL of the service (default: BAGFS_URL, else of the profile)',
  ).argParser(asOptionParser(parseServiceUrl))

export const tokenFileOption = () =>
  new Option(
    '--token-file <file>',
    'file that holds the API token (default: BAGFS_TOKEN, else of the profile)',
  )

export const profileOption = () =>
  new Option('--profile <name>', 'account of this name, as bagfs profiles lists them')

/** What of the chosen options says which service. */
export type ServiceOptions = Pick<ChosenOptions, 'options' | 'token' | 'profile'> &
  Partial<Pick<ChosenOptions, 'profiles' | 'origins'>>

/** Finds the service and the token, and warns of what puts the token at risk. */
export async function chooseService(
  warn: (sentence: string) => void,
  chosen: ServiceOptions,
): Promise<ServiceChoice> {
  const dataDir = localDataDir(chosen.options)
  if (dataDir !== undefined) {
    return { kind: 'local', dataDir, token: (await keepLocalToken(dataDir)).token }
  }
  const { url, token: chosenToken } = requireAccount(chosen)
  if (isUnencrypted(url)) {
    warn(`${url} is not encrypted; others on the network can read the token.`)
  }
  const profile = profileOfToken(chosen)
  const token = await takeToken(chosenToken, profile)
  return { kind: 'account', url, ...token, ...(profile === undefined ? {} : { profile }) }
}

/** Rejects `usage` where nothing says which service, or with which token. It warns of nothing. */
export function requireAccount(chosen: ServiceOptions): {
  readonly url: string
  readonly token: ChosenToken
} {
  const { url } = chosen.options
  if (url === undefined) throw noService(chosen)
  if (chosen.token === undefined) throw noToken(chosen)
  return { url, token: chosen.token }
}

/** The profile that says where the token is; undefined where a flag or the environment gives it. */
function profileOfToken({ token, profile, origins }: ServiceOptions): string | undefined {
  if (token?.from !== 'place') return undefined
  const isOfProfile = token.place.kind === 'keyring' || origins?.tokenFile?.from === 'profile'
  return isOfProfile ? profile?.name : undefined
}

async function takeToken(
  chosen: ChosenToken,
  profile: string | undefined,
): Promise<{ readonly token: string; readonly tokenPlace?: TokenPlace }> {
  if (chosen.from === 'environment') return { token: checkToken(chosen.token, chosen.variable) }
  const { place } = chosen
  const token = await readToken(place, { profile })
  // The process of a drive is in another directory.
  return {
    token,
    tokenPlace: place.kind === 'file' ? { ...place, path: resolve(place.path) } : place,
  }
}

function noService({ profile, profiles }: ServiceOptions): DriveError {
  if (profile !== undefined) {
    return new DriveError('usage', `Profile ${profile.name} has no URL of a service.`, {
      hint: `Log in: bagfs login ${profile.name}. Or give --url or set BAGFS_URL.`,
    })
  }
  const names = (profiles?.all ?? []).map(({ name }) => name).join(', ')
  if (names !== '') {
    return new DriveError('usage', 'Which account? No profile is the default.', {
      hint: `Name one of ${names}, or make one the default: bagfs profiles --default NAME`,
    })
  }
  return new DriveError('usage', 'Which service? No URL was given.', {
    hint: `Log in once: bagfs login. Or give --url or set BAGFS_URL, for example ${EXAMPLE_URL}.`,
  })
}

function noToken({ profile }: ServiceOptions): DriveError {
  const name = profile === undefined ? '' : ` ${profile.name}`
  return new DriveError('usage', 'No token was given for this account.', {
    hint: `Copy the API token from the service's dashboard and log in: bagfs login${name}. Or give --token-file FILE, or set BAGFS_TOKEN.`,
  })
}

/** Runs a command on the account; Ctrl-C aborts it, and the connections are closed in any case. */
export async function withAccount<T>(
  context: CommandContext,
  { profile, url, tokenFile }: AccountFlags,
  task: (access: AccountAccess) => Promise<T>,
): Promise<T> {
  const { environment } = context
  const flags = {
    ...(url === undefined ? {} : { url }),
    ...(tokenFile === undefined ? {} : { tokenFile }),
  }
  const chosen = await chooseOptions({ environment, flags, profile })
  const choice = await chooseService(context.output.warn, chosen)
  return withService(context, { choice, options: chosen.options }, task)
}

/** The service that a task runs on. */
export interface TaskService {
  readonly choice: ServiceChoice
  readonly options: MountFlags
  /** Told what the clock of the service says, in ms. */
  readonly onServiceTime?: (atMs: number) => void
}

/** As `withAccount`, on a service that was chosen. */
export async function withService<T>(
  { output }: Pick<CommandContext, 'output'>,
  { choice, options, ...told }: TaskService,
  task: (access: AccountAccess) => Promise<T>,
): Promise<T> {
  const { token } = choice
  const log = createStderrLogger(output, [token])
  const authHeader = await recallAuthHeader(stateDirOf(options), serviceKeyOf(choice), token)
  const place = await openPlace(choice, log)
  // The HTTP client takes long to load, and commands that only read options need it not.
  const { createHttpService } = await import('../service/http-service.ts')
  const service = createHttpService(
    { log, clock: systemClock },
    { baseUrl: place.url, token, ...told, ...(authHeader === undefined ? {} : { authHeader }) },
  )
  const signals = listenForStop()
  try {
    return await task({ service, log, signal: signals.stop, silenceMs: SILENCE_MS })
  } catch (error) {
    throw namingLogin(error, choice)
  } finally {
    signals.ignore()
    await service.close()
    await place.close()
  }
}

/** Where the service is asked; an embedded one is started for the command, unless a drive runs it. */
async function openPlace(
  choice: ServiceChoice,
  log: Logger,
): Promise<{ readonly url: string; readonly close: () => Promise<void> }> {
  if (choice.kind === 'account') return { url: choice.url, close: () => Promise.resolve() }
  const { openLocalService } = await import('./open-local-service.ts')
  return openLocalService(choice, log)
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
