import { localStamp } from '../domain/local-stamp.ts'

/** How a line of a log begins that is not JSON. */
const STAMP = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z(?= )/gm
const LINE_END = '\n'.charCodeAt(0)

/** The lines of a log with their times as local ones. A line is passed on once it is whole; the last one as it is. */
export async function* inLocalTime(log: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let rest = Buffer.alloc(0)
  for await (const block of log) {
    const all = Buffer.concat([rest, block])
    const end = all.lastIndexOf(LINE_END) + 1
    rest = all.subarray(end)
    if (end > 0) yield withLocalTimes(all.subarray(0, end))
  }
  if (rest.length > 0) yield withLocalTimes(rest)
}

/** Byte by byte, since a kill may have cut a letter in two. */
function withLocalTimes(lines: Buffer): Buffer {
  const text = lines.toString('latin1')
  return Buffer.from(
    text.replace(STAMP, (stamp) => localStamp(Date.parse(stamp))),
    'latin1',
  )
}
