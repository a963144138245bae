import { isIPv4, type Socket } from 'node:net'
import { endianness } from 'node:os'
import { readProcFile } from '../disk/process-stat.ts'

type Ends = Pick<Socket, 'remoteAddress' | 'remotePort' | 'localAddress' | 'localPort'>

/**
 * The user of the program at the other end of a connection within this machine; undefined where the kernel does not
 * tell, as for a program that has let go of it.
 */
export async function peerUser(socket: Ends): Promise<number | undefined> {
  const { remoteAddress, remotePort, localAddress, localPort } = socket
  if (remoteAddress === undefined || localAddress === undefined) return undefined
  // An IPv6 socket that speaks IPv4 is in the other table.
  for (const [table, toHex] of isIPv4(remoteAddress) ? IPV4_TABLES : IPV6_TABLES) {
    const theirs = `${toHex(remoteAddress)}:${portHex(remotePort)}`
    const ours = `${toHex(localAddress)}:${portHex(localPort)}`
    for (const row of ((await readProcFile(table)) ?? '').split('\n')) {
      const [, from, to, , , , , uid, , inode] = row.trim().split(/\s+/)
      // What no program holds any more says 0 for both.
      if (from === theirs && to === ours && inode !== '0') return Number(uid)
    }
  }
  return undefined
}

type ToHex = (address: string) => string

const MAPPED = '00000000000000000000FFFF'
const IPV4_TABLES: readonly (readonly [string, ToHex])[] = [
  ['net/tcp', ipv4Hex],
  ['net/tcp6', (address) => inWords(MAPPED) + ipv4Hex(address)],
]
const IPV6_TABLES: readonly (readonly [string, ToHex])[] = [['net/tcp6', ipv6Hex]]

function ipv4Hex(address: string): string {
  const bytes = address.split('.').map((part) => Number(part).toString(16).padStart(2, '0'))
  return inWords(bytes.join('').toUpperCase())
}

/** Of loopback, the only one that is asked about. */
function ipv6Hex(address: string): string {
  return address === '::1' ? inWords('1'.padStart(32, '0')) : ''
}

function portHex(port: number | undefined): string {
  return (port ?? 0).toString(16).padStart(4, '0').toUpperCase()
}

/** The tables print each 32 bits as a number of this machine. */
function inWords(hex: string): string {
  if (endianness() === 'BE') return hex
  const words = hex.match(/.{8}/g) ?? []
  return words.map((word) => (word.match(/../g) ?? []).reverse().join('')).join('')
}
