import type { Attributes } from '../../drive/tree/attributes.ts'
import { TYPE_BITS } from '../stats.ts'

const numbers = new Float64Array(10)
const words = new Uint32Array(numbers.buffer)

/**
 * Tells attributes apart, in a number that costs no memory of its own beside the node that has it. Two that differ are
 * the same to it once in a thousand million times, and then for as long as they are trusted. Made as MurmurHash3 is.
 */
export function digestOf(attributes: Attributes): number {
  const { kind, size, mode, uid = -1, gid = -1, links = 0, device = 0, allocated = -1 } = attributes
  numbers[0] = size
  numbers[1] = attributes.mtimeMs
  numbers[2] = attributes.ctimeMs
  numbers[3] = attributes.atimeMs
  numbers[4] = TYPE_BITS[kind] | mode
  numbers[5] = uid
  numbers[6] = gid
  numbers[7] = links
  numbers[8] = device
  numbers[9] = allocated
  let hash = 0
  for (const word of words) {
    hash ^= Math.imul(turned(Math.imul(word, 0xcc9e_2d51), 15), 0x1b87_3593)
    hash = Math.imul(turned(hash, 13), 5) + 0xe654_6b64
  }
  hash = Math.imul(hash ^ (hash >>> 16), 0x85eb_ca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2_ae35)
  return (hash ^ (hash >>> 16)) & 0x3fff_ffff
}

function turned(bits: number, by: number): number {
  return (bits << by) | (bits >>> (32 - by))
}
