import { formatSize } from '../../config/sizes.ts'
import { RangeSupport } from '../../content/range-support.ts'
import { systemClock } from '../../domain/clock.ts'
import { isDriveError } from '../../domain/errors.ts'
import type { BagRecord } from '../../domain/record.ts'
import type { ChosenOptions } from '../../profiles/choose-options.ts'
import type { Download } from '../../service/storage-service.ts'
import { chooseService, withService, type AccountAccess } from '../account.ts'
import type { CommandContext } from '../context.ts'
import { namingLogin, serviceKeyOf, type ServiceChoice } from '../mount-job.ts'
import { failed, runCheck, type Check } from './check.ts'

/** A head has whole seconds, and an answer takes a while. */
const LARGEST_DIFFERENCE_MS = 60_000

export interface ServiceChecks {
  readonly checks: readonly Check[]
  /** Undefined where there was none to use. */
  readonly token?: string
}

/** Which account it is, whether its service answers and takes the token, and what that service can do. */
export async function checkService(
  context: Pick<CommandContext, 'output'>,
  chosen: ChosenOptions,
): Promise<ServiceChecks> {
  const warnings: string[] = []
  let choice: ServiceChoice
  try {
    choice = await chooseService((sentence) => warnings.push(sentence), chosen)
  } catch (error) {
    return { checks: [failed('account', error)] }
  }
  const account = describeChoice(choice, chosen, warnings)
  const asked = await ask(context, chosen, choice).catch((error: unknown) => [
    failed('service', error),
  ])
  return { checks: [account, ...asked], token: choice.token }
}

function describeChoice(
  choice: ServiceChoice,
  { profile }: ChosenOptions,
  warnings: readonly string[],
): Check {
  const name = profile === undefined ? '' : `profile ${profile.name}, `
  const says = `${name}${serviceKeyOf(choice)}`
  if (warnings.length === 0) return { name: 'account', state: 'ok', says }
  return {
    name: 'account',
    state: 'warning',
    says: `${name}${warnings.join(' ')}`,
    mend: 'Use the https:// address of the service, if it has one: bagfs login --url URL',
  }
}

async function ask(
  context: Pick<CommandContext, 'output'>,
  { options }: ChosenOptions,
  choice: ServiceChoice,
): Promise<readonly Check[]> {
  /** How far the clock of this machine is ahead of the service's. */
  let aheadMs: number | undefined
  const onServiceTime = (atMs: number): void => {
    aheadMs ??= systemClock.now() - atMs
  }
  return withService(context, { choice, options, onServiceTime }, async (access) => {
    const account = await checkAccount(access, choice)
    if (account.at(-1)?.state === 'failure') return [...account, clockCheck(aheadMs)].flat()
    return [...account, ...clockCheck(aheadMs), ...(await checkAbilities(access))]
  })
}

/** A refusal is an answer, too: then the service is there, and the token is what is wrong. */
async function checkAccount(
  { service, signal }: AccountAccess,
  choice: ServiceChoice,
): Promise<readonly Check[]> {
  const answers: Check = { name: 'service', state: 'ok', says: 'it answers' }
  try {
    const { uid, capacity, spaceLeft } = await service.getAccount({ signal })
    const says = `taken: account ${uid}, ${formatSize(spaceLeft)} of ${formatSize(capacity)} left`
    return [answers, { name: 'token', state: 'ok', says }]
  } catch (error) {
    if (isDriveError(error, 'unauthorized', 'forbidden')) {
      return [answers, failed('token', namingLogin(error, choice))]
    }
    return [failed('service', error)]
  }
}

function clockCheck(aheadMs: number | undefined): readonly Check[] {
  return aheadMs === undefined ? [] : [{ name: 'clock', ...judgeClock(aheadMs) }]
}

function judgeClock(aheadMs: number): Omit<Check, 'name'> {
  const seconds = Math.round(Math.abs(aheadMs) / 1000)
  if (Math.abs(aheadMs) <= LARGEST_DIFFERENCE_MS) return { state: 'ok', says: "as the service's" }
  const where = aheadMs > 0 ? 'ahead of' : 'behind'
  return {
    state: 'warning',
    says: `The clock of this machine is ${seconds} s ${where} that of the service.`,
    mend: 'Let it be set by the network: sudo timedatectl set-ntp true',
  }
}

/** By the listing, and the head of one small bag. */
async function checkAbilities(access: AccountAccess): Promise<readonly Check[]> {
  let bags: readonly BagRecord[] = []
  const listing = await runCheck('listing', async () => {
    bags = await access.service.listFiles({ signal: access.signal })
    return bags.length === 1 ? '1 bag' : `${bags.length} bags`
  })
  if (listing.state === 'failure') return [listing]
  const sample = smallest(bags)
  if (sample === undefined) return [listing]
  try {
    const { service, signal } = access
    const head = await service.download(sample.bagId, { range: { start: 1, end: 2 }, signal })
    head.body.destroy()
    return [
      listing,
      { name: 'ranges', ...judgeRanges(head) },
      { name: 'lengths', ...judgeLengths(head) },
    ]
  } catch (error) {
    return [listing, failed('download', error)]
  }
}

/** Of one byte no second half can be asked for. */
function smallest(bags: readonly BagRecord[]): BagRecord | undefined {
  return bags
    .filter(({ size }) => (size ?? 0) > 1)
    .reduce<BagRecord | undefined>(
      (least, bag) => (least === undefined || (bag.size ?? 0) < (least.size ?? 0) ? bag : least),
      undefined,
    )
}

function judgeRanges(head: Download): Omit<Check, 'name'> {
  const support = new RangeSupport()
  support.note(1, head)
  if (support.mayAsk) return { state: 'ok', says: 'the service sends any part of a file' }
  return {
    state: 'warning',
    says: 'The service sends whole files only: reading the end of a large one takes all before it, and one that breaks off begins again.',
  }
}

function judgeLengths({ totalLength }: Download): Omit<Check, 'name'> {
  if (totalLength !== undefined)
    return { state: 'ok', says: 'the service tells how long a file is' }
  return {
    state: 'warning',
    says: 'The service does not tell how long a file is: its size shows once it was read to its end.',
  }
}
