import { randomBytes } from 'node:crypto'
import { crc32, deflateSync } from 'node:zlib'

const SIGNATURE = Buffer.from('\x89PNG\r\n\x1a\n', 'latin1')
const BYTES_PER_PIXEL = 3
const COLOURS = 2

/** A square PNG that no compression makes smaller. */
export function noisePicture(width: number): Buffer {
  const head = Buffer.alloc(13)
  head.writeUInt32BE(width, 0)
  head.writeUInt32BE(width, 4)
  head.writeUInt8(8, 8)
  head.writeUInt8(COLOURS, 9)
  const noFilter = Buffer.of(0)
  const rows = Array.from({ length: width }, () => [noFilter, randomBytes(width * BYTES_PER_PIXEL)])
  const pixels = deflateSync(Buffer.concat(rows.flat()), { level: 0 })
  return Buffer.concat([SIGNATURE, chunk('IHDR', head), chunk('IDAT', pixels), chunk('IEND')])
}

function chunk(type: string, content: Uint8Array = Buffer.alloc(0)): Buffer {
  const named = Buffer.concat([Buffer.from(type, 'latin1'), content])
  const frame = Buffer.alloc(4)
  const sum = Buffer.alloc(4)
  frame.writeUInt32BE(content.length)
  sum.writeUInt32BE(crc32(named))
  return Buffer.concat([frame, named, sum])
}
