import type { DriveStatus } from '../../../src/control/protocol.ts'

/** The status of a drive of which nothing is known. */
export const EMPTY_STATUS: DriveStatus = {
  version: 1,
  mountpoint: '/drive',
  pid: 1,
  service: 'http://service',
  account: 'me',
  mode: 'back',
  listing: { ageMs: null, records: 0 },
  cache: { bytes: 0, maxBytes: 10, bags: 0 },
  uploads: [],
  downloads: [],
  outbox: [],
  room: [],
  damaged: [],
}

/** The samples of a text of Prometheus: the value of each by its name and labels. */
export function samplesOf(text: string): ReadonlyMap<string, number> {
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  return new Map(
    lines.map((line) => {
      const at = line.lastIndexOf(' ')
      return [line.slice(0, at), Number(line.slice(at + 1))]
    }),
  )
}
