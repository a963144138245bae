/**
 * Uploads a file as a stream, lists the account, and downloads the file again.
 *
 *     BAGFS_URL=https://... BAGFS_TOKEN=... node transfer.js FILE COPY
 */
import { createReadStream, createWriteStream } from 'node:fs'
import { basename } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { connect, isDriveError } from 'bagfs'

const [path = '', copy = ''] = process.argv.slice(2)
const client = connect({
  url: process.env['BAGFS_URL'] ?? '',
  token: process.env['BAGFS_TOKEN'] ?? '',
})
try {
  const { spaceLeft } = await client.account()
  console.log(`${spaceLeft} bytes are left.`)

  const bagId = await client.uploadFile(basename(path), createReadStream(path), {
    description: 'An example',
    onProgress: (sentBytes) => {
      process.stderr.write(`\r${sentBytes} bytes sent`)
    },
  })
  console.log(`Stored as ${bagId}.`)

  for (const { name, size } of await client.list()) console.log(`${name}  ${size ?? 'unknown'}`)

  const { body } = await client.download(bagId)
  await pipeline(body, createWriteStream(copy))

  // Part of it: the last byte that is wanted is not in the range.
  const part = await client.download(bagId, { range: { start: 0, end: 4 } })
  console.log(`It begins with ${Buffer.concat(await part.body.toArray()).toString('hex')}.`)

  await client.delete(bagId)
  const gone = await client.download(bagId).catch((error: unknown) => error)
  if (isDriveError(gone, 'gone')) console.log('It is gone.')
} finally {
  await client.close()
}
