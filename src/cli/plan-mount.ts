import { withDefault } from '../config/options.ts'
import type { MountpointSettings } from '../mount/mountpoint.ts'
import { prepareMount } from '../mount/prepare-mount.ts'
import { chooseService, requireAccount, type ServiceOptions } from './account.ts'
import { localDataDir, stateDirOf } from './drive-dirs.ts'
import type { CommandContext } from './context.ts'
import type { MountJob } from './mount-job.ts'

/** Turns the options that were chosen, and defaults, into a mount, and refuses one that cannot work before anything is started. */
export async function planMount(
  context: CommandContext,
  mountpoint: string,
  chosen: ServiceOptions,
  mayMake: MountpointSettings['mayMake'] = () => Promise.resolve(false),
): Promise<MountJob> {
  const { options } = chosen
  const profile = accountName(chosen)
  const dataDir = localDataDir(options)
  const drive = await prepareMount(context.environment, {
    ...{ mountpoint, options },
    mayMake: (path) => {
      // A directory is of no use before the person has logged in.
      if (dataDir === undefined) requireAccount(chosen)
      return mayMake(path)
    },
    stateDir: stateDirOf(options),
    ...(dataDir === undefined ? {} : { dataDirs: [dataDir] }),
  })
  const service = await chooseService(context.output.warn, chosen)
  return {
    drive: { ...drive, ...(profile === undefined ? {} : { profile }) },
    service,
    log: { level: withDefault(options, 'logLevel'), json: withDefault(options, 'logJson') },
  }
}

/** The profile that the account is of; undefined where a flag or the environment names another one. */
function accountName({ origins = {} }: ServiceOptions): string | undefined {
  const origin = origins.url ?? origins.local
  return origin?.from === 'profile' ? origin.profile : undefined
}
