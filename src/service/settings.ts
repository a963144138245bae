import { DriveError } from '../domain/errors.ts'

/** The two headers that services take the token in (docs/SERVICE.md). */
export type AuthHeader = 'bearer' | 'x-authorization'

export interface HttpServiceSettings {
  /** `http:` or `https:` address of the service; a path prefix and a trailing slash are fine. */
  readonly baseUrl: string
  readonly token: string
  readonly maxUploads?: number
  readonly maxDownloads?: number
  /** Connections in all; what uploads and downloads leave is for the short calls, at least one. */
  readonly maxConnections?: number
  readonly connectTimeoutMs?: number
  /** Limit for the whole of a short call; for the listing, until its head is here. */
  readonly metadataTimeoutMs?: number
  /** From the end of the request to the first byte of the answer (uploads, downloads, imports). */
  readonly firstByteTimeoutMs?: number
  /** How long a body may stand still, in either direction. */
  readonly stallTimeoutMs?: number
  /** Repeats after the first try. */
  readonly retries?: number
  readonly retryBaseMs?: number
  /** Longest wait before a repeat; a service that asks for more gets no repeat from here. */
  readonly retryMaxMs?: number
  /** The header that this service is known to take. */
  readonly authHeader?: AuthHeader
  /** Told which header the service took when it is not the one that was tried first. */
  readonly onAuthHeader?: (header: AuthHeader) => void
  /** Told what the clock of the service says, in ms, by the head of each answer that has a date. */
  readonly onServiceTime?: (atMs: number) => void
  /** Asked when the service refuses the token: another one to try, if there is one. Must not reject. */
  readonly renewToken?: (refused: string) => Promise<string | undefined>
}

export type Resolved = Required<Omit<HttpServiceSettings, 'baseUrl'>> & {
  readonly origin: string
  /** Path of the base URL without a trailing slash; empty at the root. */
  readonly prefix: string
}

const DEFAULTS = {
  maxUploads: 4,
  maxDownloads: 8,
  maxConnections: 16,
  connectTimeoutMs: 10_000,
  metadataTimeoutMs: 10_000,
  firstByteTimeoutMs: 30_000,
  stallTimeoutMs: 30_000,
  retries: 4,
  retryBaseMs: 200,
  retryMaxMs: 10_000,
  authHeader: 'bearer',
  onAuthHeader: (): void => undefined,
  onServiceTime: (): void => undefined,
  renewToken: (): Promise<undefined> => Promise.resolve(undefined),
} as const

/** Content may take this many times as long as a short call until its next byte. */
export const CONTENT_PATIENCE = 3

/** The deadlines of a service that may be silent for so long. */
export function deadlinesOf(timeoutMs: number): Omit<HttpServiceSettings, 'baseUrl' | 'token'> {
  return {
    connectTimeoutMs: timeoutMs,
    metadataTimeoutMs: timeoutMs,
    firstByteTimeoutMs: CONTENT_PATIENCE * timeoutMs,
    stallTimeoutMs: CONTENT_PATIENCE * timeoutMs,
  }
}

/** Fills in defaults. Throws DriveError `usage` for what cannot be used; the token is never in it. */
export function resolveSettings(settings: HttpServiceSettings): Resolved {
  const { baseUrl, ...rest } = settings
  const resolved = { ...DEFAULTS, ...rest, ...parseBaseUrl(baseUrl), token: settings.token.trim() }
  checkToken(resolved.token)
  checkNumbers(resolved)
  if (resolved.maxUploads + resolved.maxDownloads >= resolved.maxConnections) {
    throw new DriveError(
      'usage',
      `${resolved.maxConnections} connections are too few for ${resolved.maxUploads} uploads, ` +
        `${resolved.maxDownloads} downloads and the calls beside them.`,
    )
  }
  return resolved
}

function parseBaseUrl(baseUrl: string): { origin: string; prefix: string } {
  const url = URL.canParse(baseUrl) ? new URL(baseUrl) : undefined
  if (url === undefined || !['http:', 'https:'].includes(url.protocol)) {
    throw new DriveError('usage', 'The URL of the service must start with http:// or https://.')
  }
  if (url.username !== '' || url.password !== '' || url.search !== '' || url.hash !== '') {
    throw new DriveError(
      'usage',
      'The URL of the service must hold no user name, password, query or fragment.',
    )
  }
  return { origin: url.origin, prefix: url.pathname.replace(/(?<!\/)\/+$/, '') }
}

const HEADER_SAFE = /^[\x21-\x7e]+$/

function checkToken(token: string): void {
  if (HEADER_SAFE.test(token)) return
  throw new DriveError(
    'usage',
    token === ''
      ? 'The token is empty.'
      : 'The token holds blanks or characters that a header cannot carry.',
  )
}

function checkNumbers(resolved: Resolved): void {
  for (const [name, value] of Object.entries(resolved)) {
    if (typeof value !== 'number') continue
    const least = name === 'retries' ? 0 : 1
    if (!Number.isFinite(value) || value < least) {
      throw new DriveError('usage', `${name} must be ${least} or more.`)
    }
  }
}
