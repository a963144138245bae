import type { TokenPlace } from '../config/token.ts'
import { DriveError, isDriveError } from '../domain/errors.ts'
import type { LogSettings } from './logging.ts'
import type { PreparedMount } from '../mount/prepare-mount.ts'
import type { RunDrive, RunDriveDeps } from '../mount/running-drive.ts'
import { tuneV8 } from '../mount/tune-v8.ts'

/** Which service a mount talks to: an account somewhere, or the embedded one with its data here. */
export type ServiceChoice =
  | {
      readonly kind: 'account'
      readonly url: string
      readonly token: string
      readonly tokenPlace?: TokenPlace
      /** The one that has the token. */
      readonly profile?: string
    }
  | { readonly kind: 'local'; readonly dataDir: string; readonly token: string }

/** Of a token that was refused, with the command that gives the profile a new one; any other error as it is. */
export function namingLogin(error: unknown, service: ServiceChoice): unknown {
  const profile = service.kind === 'account' ? service.profile : undefined
  if (profile === undefined || !isDriveError(error, 'unauthorized')) return error
  return new DriveError(error.code, error.message, {
    ...error.facts,
    hint: `The service's dashboard gives a new token. Log in with it: bagfs login ${profile}`,
  })
}

/** What the state directory knows the service by; the port of an embedded one is another one each time. */
export function serviceKeyOf(
  service:
    | { readonly kind: 'account'; readonly url: string }
    | { readonly kind: 'local'; readonly dataDir: string },
): string {
  return service.kind === 'account' ? service.url : `local:${service.dataDir}`
}

/** A mount as it is handed to the process that runs it; plain JSON. */
export interface MountJob {
  readonly drive: PreparedMount
  readonly service: ServiceChoice
  readonly log: LogSettings
}

/** Runs a mount, with the embedded service beside it when it is a local one; resolves when it is unmounted. */
export async function runMountJob(job: MountJob, deps: RunDriveDeps): Promise<void> {
  // Not in a process of other people's programs, which mount by the package. Before most of the program is loaded.
  tuneV8()
  // Loads the FUSE library: only a mount may fail where there is none.
  const { runDrive } = await import('../mount/run-drive.ts')
  const { service } = job
  if (service.kind === 'account') {
    const { url, token, tokenPlace } = service
    const place = tokenPlace === undefined ? {} : { tokenPlace }
    const settings = { ...job.drive, url, token, ...place, serviceKey: serviceKeyOf(service) }
    await runDrive(settings, deps).catch((error: unknown) => {
      throw namingLogin(error, service)
    })
    return
  }
  await runWithLocalService(job, service, { ...deps, runDrive })
}

async function runWithLocalService(
  { drive }: MountJob,
  service: Extract<ServiceChoice, { kind: 'local' }>,
  { runDrive, ...deps }: RunDriveDeps & { readonly runDrive: RunDrive },
): Promise<void> {
  const { startLocalService } = await import('../local-service/server.ts')
  const { dataDir, token } = service
  const local = await startLocalService({ dataDir, tokens: [token] }, { log: deps.log })
  try {
    await runDrive({ ...drive, url: local.url, token, serviceKey: serviceKeyOf(service) }, deps)
  } finally {
    await local.close()
  }
}
