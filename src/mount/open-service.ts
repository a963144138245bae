import type { MountSettings } from '../config/mount-settings.ts'
import { systemClock } from '../domain/clock.ts'
import { withBreaker } from '../service/breaker.ts'
import type { StorageService } from '../service/storage-service.ts'
import { createHttpService } from '../service/http-service.ts'
import { deadlinesOf, type HttpServiceSettings } from '../service/settings.ts'
import type { WireMeter } from '../service/wire-meter.ts'
import { recallAuthHeader, rememberAuthHeader, rememberUid } from '../state/accounts.ts'
import type { RunDriveDeps } from './running-drive.ts'
import { TokenRenewal } from './token-renewal.ts'

/** What a drive tells its service, once it knows it. */
export interface ServiceUser {
  /** The account that the drive shows. */
  readonly uid: string
  /** Told when the service answers again, or takes a new token. */
  readonly onBack: () => void
}

export interface OpenedService {
  readonly service: StorageService
  /** Before it, no new token is taken from where it is kept: it may be one of another account. */
  usedBy(user: ServiceUser): void
}

type OpenServiceDeps = Pick<RunDriveDeps, 'log' | 'onSecret'> & { readonly meter?: WireMeter }

type ServiceAddress = Omit<HttpServiceSettings, 'token'>

/** The service of a mount, with a breaker before it. */
export async function openService(
  settings: MountSettings,
  { log, onSecret, ...metered }: OpenServiceDeps,
): Promise<OpenedService> {
  const { stateDir, serviceKey, token } = settings
  let user: ServiceUser | undefined
  const onBack = (): void => user?.onBack()
  const place = placeOf(settings, await recallAuthHeader(stateDir, serviceKey, token))
  const forRenewal = { log, onSecret, onBack, uid: () => user?.uid }
  const tokens = openRenewal(settings, forRenewal, place)
  const service = createHttpService(
    { log, clock: systemClock, ...metered },
    {
      ...place,
      token,
      ...(tokens === undefined ? {} : { renewToken: (refused) => tokens.renew(refused) }),
      onAuthHeader: (header) => {
        rememberAuthHeader(stateDir, serviceKey, token, header).catch((error: unknown) => {
          log.warn({ error: String(error) }, 'The header of the token could not be remembered.')
        })
      },
    },
  )
  return {
    service: withBreaker(service, { clock: systemClock, log, onBack }),
    usedBy(by) {
      user = by
    },
  }
}

function placeOf(
  { url, timeoutMs }: MountSettings,
  authHeader: HttpServiceSettings['authHeader'],
): ServiceAddress {
  return {
    baseUrl: url,
    ...deadlinesOf(timeoutMs),
    ...(authHeader === undefined ? {} : { authHeader }),
  }
}

function openRenewal(
  { tokenPlace, stateDir, serviceKey }: MountSettings,
  {
    log,
    uid,
    onSecret,
    onBack,
  }: OpenServiceDeps & { readonly uid: () => string | undefined; readonly onBack: () => void },
  place: ServiceAddress,
): TokenRenewal | undefined {
  if (tokenPlace === undefined) return undefined
  return new TokenRenewal({
    place: tokenPlace,
    ...{ log, uid, onSecret },
    uidOf: async (token) => {
      const service = createHttpService({ log, clock: systemClock }, { ...place, token })
      try {
        return (await service.getAccount()).uid
      } finally {
        await service.close()
      }
    },
    onRenewed: (token) => {
      // For a mount without network.
      const own = uid()
      if (own !== undefined) {
        rememberUid(stateDir, serviceKey, token, own).catch((error: unknown) => {
          log.warn({ error: String(error) }, 'The new token could not be remembered.')
        })
      }
      onBack()
    },
  })
}
