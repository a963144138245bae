import { DriveError } from '../domain/errors.ts'

export const EXAMPLE_URL = 'https://app.openfiles.xyz'

/** Checks the base URL of a service and takes the slashes off its end. Rejects anything but plain http(s) with `usage`, without repeating it. */
export function parseServiceUrl(text: string): string {
  // Refused before its parts are known, which a secret with a slash may have cut wrongly.
  if (/[@?#]/.test(text)) {
    throw new DriveError(
      'usage',
      'The URL of the service must not hold a user name, a password, a query or a fragment.',
      { hint: 'The token goes into --token-file or BAGFS_TOKEN.' },
    )
  }
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined || !['http:', 'https:'].includes(url.protocol)) {
    throw new DriveError('usage', 'This is not the URL of a service.', {
      hint: `Write it with its scheme, such as ${EXAMPLE_URL}.`,
    })
  }
  return `${url.origin}${url.pathname}`.replace(/(?<!\/)\/+$/, '')
}

/** True when requests to this URL, and the token with them, cross a network unencrypted. */
export function isUnencrypted(url: string): boolean {
  const { protocol, hostname } = new URL(url)
  return protocol === 'http:' && !isLoopback(hostname)
}

/** True for the names and addresses of this machine itself. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || host === '[::1]' || /^127(\.\d+){3}$/.test(host)
}
