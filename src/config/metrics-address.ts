import { isIP } from 'node:net'
import { DriveError } from '../domain/errors.ts'

/** Where a drive serves its figures, and whether to others than its own user. */
export interface MetricsAddress {
  readonly host: string
  /** 0 takes one that is free; the log tells which. */
  readonly port: number
  readonly forOthers: boolean
}

const FOR_OTHERS = ',for-others'
const LOOPBACK = /^(?:127\.[\d.]+|::1)$/

/** Parses `127.0.0.1:9469`, `[::1]:9469`, `0.0.0.0:9469,for-others`. Rejects with `usage`. */
export function parseMetricsAddress(text: string): MetricsAddress {
  const forOthers = text.endsWith(FOR_OTHERS)
  const typed = forOthers ? text.slice(0, -FOR_OTHERS.length) : text
  const [, name = '', digits = ''] = /^(\[[\da-f:.]+\]|[\w.-]+):(\d{1,5})$/i.exec(typed) ?? []
  const host = name.toLowerCase() === 'localhost' ? '127.0.0.1' : name.replace(/^\[|\]$/g, '')
  const port = Number(digits)
  if (isIP(host) === 0 || port > 65_535) {
    throw new DriveError('usage', `"${text}" is not an address with a port.`, {
      hint: 'Write it as 127.0.0.1:9469.',
    })
  }
  if (LOOPBACK.test(host) || forOthers) return { host, port, forOthers }
  throw new DriveError('usage', `At ${typed} other machines could read the figures.`, {
    hint: `Use 127.0.0.1:${port}, or write ${typed}${FOR_OTHERS} when that is what you want.`,
  })
}
