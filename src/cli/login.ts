import { resolve } from 'node:path'
import { Option, type Command } from '@commander-js/extra-typings'
import { EXAMPLE_URL, isUnencrypted, parseServiceUrl } from '../config/service-url.ts'
import { checkToken, LONGEST_TOKEN_BYTES, readTokenFile, type TokenPlace } from '../config/token.ts'
import { systemClock } from '../domain/clock.ts'
import { DriveError, isDriveError } from '../domain/errors.ts'
import type { Account } from '../domain/record.ts'
import { changeProfiles, readProfiles } from '../profiles/config-file.ts'
import type { ProfileChange } from '../profiles/config-text.ts'
import {
  checkProfileName,
  findDefaultProfile,
  tokenPlaceOf,
  type Profile,
  type Profiles,
} from '../profiles/profile.ts'
import { describeTokenPlace, forgetToken, keepToken } from '../profiles/tokens.ts'
import type { AuthHeader } from '../service/settings.ts'
import { rememberAuthHeader, rememberUid } from '../state/accounts.ts'
import { formatSize } from '../config/sizes.ts'
import { urlOption } from './account.ts'
import type { CommandContext } from './context.ts'
import { localDataDir } from './drive-dirs.ts'
import { keepLocalToken } from './local-token.ts'
import { createStderrLogger } from './logging.ts'
import { serviceKeyOf } from './mount-job.ts'
import { describeUse, findState, findUse } from './profile-use.ts'
import { Prompt } from './prompt.ts'

interface LoginFlags {
  readonly url?: string
  readonly tokenFile?: string
  readonly local?: true
  readonly data?: string
  readonly keyring: boolean
  readonly force?: true
}

/** How often a person is asked for the token. */
const TRIES = 3

/** Adds `bagfs login`. */
export function addLogin(program: Command, context: CommandContext): void {
  program
    .command('login')
    .description('keep an account under a name; after it, no command needs a URL or a token')
    .argument('[profile]', 'name of the account (default: the one of before, else "default")')
    .addOption(urlOption())
    .addOption(
      new Option('--token-file <file>', 'leave the token in this file, and read it from there'),
    )
    .option('--no-keyring', "keep the token in a file, and not in the desktop's keyring")
    .option('--local', 'the account of the embedded service, on this machine')
    .addOption(
      new Option('--data <dir>', 'where the embedded service keeps its data').implies({
        local: true as const,
      }),
    )
    .option('--force', 'also when the profile is in use for another account')
    .addHelpText(
      'after',
      `
Asks for the URL and the token, which does not show while it is typed. Without a terminal, the token
is read from stdin:  bagfs login work --url ${EXAMPLE_URL} < token.txt`,
    )
    .action((name, flags) => new LoginCommand(context, flags).run(name))
}

/** An account that the service has let in. */
interface LetIn {
  readonly account: Account
  readonly url: string
  readonly token: string
  readonly header?: AuthHeader
}

class LoginCommand {
  readonly #context: CommandContext
  readonly #flags: LoginFlags

  constructor(context: CommandContext, flags: LoginFlags) {
    this.#context = context
    this.#flags = flags
  }

  async run(name: string | undefined): Promise<void> {
    const profiles = await readProfiles()
    const usual = this.#flags.local === true ? 'local' : findDefaultProfile(profiles)?.name
    const profile = checkProfileName(name ?? usual ?? 'default')
    const known = profiles.all.find((each) => each.name === profile)
    if (this.#flags.local === true) await this.#takeLocal(profiles, profile, known)
    else await this.#takeAccount(profiles, profile, known)
  }

  async #takeAccount(
    profiles: Profiles,
    profile: string,
    known: Profile | undefined,
  ): Promise<void> {
    const { output } = this.#context
    const letIn = await this.#ask(known)
    await this.#refuseInUse(known, serviceKeyOf({ kind: 'account', url: letIn.url }), letIn)
    const place = await this.#keep(profile, letIn)
    const change: ProfileChange = {
      account: letIn.account.uid,
      token: place.kind === 'keyring' ? 'keyring' : undefined,
      options: {
        url: letIn.url,
        local: undefined,
        tokenFile: place.kind === 'file' ? place.path : undefined,
      },
    }
    await this.#write(profile, change)
    await this.#forgetOld(known, profiles, place)
    await this.#remember(profile, letIn)
    output.note(`Logged in to ${letIn.url}: ${describeAccount(letIn.account)}.`)
    output.note(`The token is in ${describeTokenPlace(place)}.`)
    await this.#tellNext(profile)
  }

  async #takeLocal(profiles: Profiles, profile: string, known: Profile | undefined): Promise<void> {
    const { output } = this.#context
    const local = this.#flags.data === undefined ? true : resolve(this.#flags.data)
    const dataDir = localDataDir({ local }) ?? ''
    const { token } = await keepLocalToken(dataDir)
    const log = createStderrLogger(output, [token])
    const { openLocalService } = await import('./open-local-service.ts')
    const service = await openLocalService({ dataDir, token }, log)
    try {
      const letIn = await this.#check(service.url, token)
      await this.#refuseInUse(known, serviceKeyOf({ kind: 'local', dataDir }), letIn)
      const options = { url: undefined, tokenFile: undefined, local: String(local) }
      const change = { account: letIn.account.uid, token: undefined, options }
      await this.#write(profile, change)
      await this.#forgetOld(known, profiles)
      await this.#remember(profile, letIn)
      output.note(
        `The account is on this machine, in ${dataDir}: ${describeAccount(letIn.account)}.`,
      )
      await this.#tellNext(profile)
    } finally {
      await service.close()
    }
  }

  async #ask(known: Profile | undefined): Promise<LetIn> {
    const { output, environment } = this.#context
    const { tokenFile } = this.#flags
    const before = known?.options.get('url')?.text ?? environment.options.url
    const prompt = Prompt.open(output)
    try {
      const url = await this.#askUrl(prompt, before)
      if (isUnencrypted(url)) {
        output.warn(`${url} is not encrypted; others on the network can read the token.`)
      }
      if (tokenFile !== undefined) return await this.#check(url, await readTokenFile(tokenFile))
      if (prompt === undefined) return await this.#check(url, await readStdin())
      return await this.#askToken(prompt, url)
    } finally {
      prompt?.close()
    }
  }

  async #askUrl(prompt: Prompt | undefined, before: string | undefined): Promise<string> {
    if (this.#flags.url !== undefined) return this.#flags.url
    if (prompt !== undefined) {
      return parseServiceUrl(await prompt.ask('URL of the service', before ?? EXAMPLE_URL))
    }
    if (before !== undefined) return parseServiceUrl(before)
    throw new DriveError('usage', 'Which service? No URL was given.', {
      hint: `Give --url, for example --url ${EXAMPLE_URL}.`,
    })
  }

  async #askToken(prompt: Prompt, url: string): Promise<LetIn> {
    for (let tries = 1; ; tries += 1) {
      const token = await prompt.askHidden("API token, from the service's dashboard")
      try {
        return await this.#check(url, checkToken(token, 'The answer'))
      } catch (error) {
        if (!isDriveError(error, 'unauthorized', 'usage') || tries === TRIES) throw error
        this.#context.output.note(`bagfs: ${error.message} Try again.`)
      }
    }
  }

  /** Whose token it is, by the service itself, and the header that it takes it in. */
  async #check(url: string, token: string): Promise<LetIn> {
    const log = createStderrLogger(this.#context.output, [token])
    const { createHttpService } = await import('../service/http-service.ts')
    let header: AuthHeader | undefined
    const service = createHttpService(
      { log, clock: systemClock },
      {
        baseUrl: url,
        token,
        onAuthHeader: (taken) => {
          header = taken
        },
      },
    )
    try {
      const account = await service.getAccount()
      return { account, url, token, ...(header === undefined ? {} : { header }) }
    } finally {
      await service.close()
    }
  }

  /** A profile that becomes another account is as good as logged out. */
  async #refuseInUse(
    known: Profile | undefined,
    service: string,
    { account }: LetIn,
  ): Promise<void> {
    if (known === undefined || this.#flags.force === true) return
    const { environment } = this.#context
    const { serviceKey } = await findState(environment, known)
    if (serviceKey === service && known.account === account.uid) return
    const use = describeUse(await findUse(environment, known))
    if (use === '') return
    throw new DriveError('busy', `Profile ${known.name} is in use for another account. ${use}`, {
      hint: `Take another name for this account: bagfs login OTHER. Or add --force: what waits stays on this machine.`,
    })
  }

  async #keep(profile: string, { url, token }: LetIn): Promise<TokenPlace> {
    const { tokenFile, keyring } = this.#flags
    if (tokenFile !== undefined) return { kind: 'file', path: resolve(tokenFile) }
    return keepToken({ profile, token, service: url }, { useKeyring: keyring })
  }

  /** The first profile becomes the default one. */
  async #write(profile: string, change: ProfileChange): Promise<void> {
    await changeProfiles((config, { all }) => {
      if (all.length === 0) config.setDefault(profile)
      config.setProfile(profile, change)
    })
  }

  /** The token of before, where the new one is kept elsewhere. */
  async #forgetOld(
    known: Profile | undefined,
    { path }: Profiles,
    place?: TokenPlace,
  ): Promise<void> {
    const old = known === undefined ? undefined : tokenPlaceOf(known, path)
    if (old === undefined || JSON.stringify(old) === JSON.stringify(place)) return
    if (await forgetToken(old)) return
    this.#context.output.warn(`the old token is still in ${describeTokenPlace(old)}.`)
  }

  /** For the first mount, which may have no network. */
  async #remember(name: string, { token, account, header }: LetIn): Promise<void> {
    const { root, serviceKey } = await findState(this.#context.environment, { name })
    await rememberUid(root, serviceKey, token, account.uid)
    if (header !== undefined) await rememberAuthHeader(root, serviceKey, token, header)
  }

  async #tellNext(profile: string): Promise<void> {
    const isUsual = findDefaultProfile(await readProfiles())?.name === profile
    const target = isUsual ? '~/drive' : `${profile}:~/drive`
    const isDefault = isUsual ? ', the default' : ''
    this.#context.output.note(
      `Kept as profile ${profile}${isDefault}. Mount it: bagfs mount ${target}`,
    )
  }
}

function describeAccount({ uid, capacity, spaceLeft }: Account): string {
  return `account ${uid}, ${formatSize(spaceLeft)} of ${formatSize(capacity)} left`
}

async function readStdin(): Promise<string> {
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of process.stdin as AsyncIterable<Buffer>) {
    chunks.push(chunk)
    length += chunk.length
    if (length > LONGEST_TOKEN_BYTES) break
  }
  return checkToken(Buffer.concat(chunks).toString('utf8'), 'stdin')
}
