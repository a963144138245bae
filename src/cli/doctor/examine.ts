import type { DriveStatus } from '../../control/protocol.ts'
import { chooseOptions, type ChosenOptions } from '../../profiles/choose-options.ts'
import type { CommandContext } from '../context.ts'
import { failed, type Check } from './check.ts'
import { checkDrives } from './drives.ts'
import { checkMachine } from './machine.ts'
import { checkSeen } from './seen.ts'
import { checkService } from './service.ts'
import { checkStateDirectory } from './state-directory.ts'

export interface Examination {
  readonly checks: readonly Check[]
  /** Undefined where the config file or the environment cannot be used. */
  readonly chosen?: ChosenOptions
  readonly statuses: readonly DriveStatus[]
  /** The token that was used. */
  readonly token?: string
}

/** Looks at all that a mount of this account needs, in the order in which it needs it. */
export async function examine(
  context: CommandContext,
  profile: string | undefined,
): Promise<Examination> {
  const { environment } = context
  let chosen: ChosenOptions
  try {
    chosen = await chooseOptions({ environment, flags: {}, profile })
  } catch (error) {
    const machine = await checkMachine(environment, {})
    const { checks, statuses } = await checkDrives()
    return { checks: [failed('config', error), ...machine, ...checks], statuses }
  }
  const { options } = chosen
  const [machine, stateDirectory, service, drives] = await Promise.all([
    checkMachine(environment, options),
    checkStateDirectory(options),
    checkService(context, chosen),
    checkDrives(),
  ])
  return {
    checks: [
      ...machine,
      ...stateDirectory,
      ...service.checks,
      ...drives.checks,
      ...checkSeen(drives.statuses, options),
    ],
    chosen,
    statuses: drives.statuses,
    ...(service.token === undefined ? {} : { token: service.token }),
  }
}
