/**
 * Mounts an account within this process, writes a file in it, waits until the service has it, and unmounts.
 *
 *     BAGFS_URL=https://... BAGFS_TOKEN=... node mount.js DIRECTORY
 *
 * Only asynchronous calls: a synchronous one would wait for the drive, and the drive for it.
 */
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DriveError, mount } from 'bagfs'

const drive = await mount({
  url: process.env['BAGFS_URL'] ?? '',
  token: process.env['BAGFS_TOKEN'] ?? '',
  mountpoint: process.argv[2] ?? '',
  writeBack: true,
  minFree: '100MB',
})
try {
  await writeFile(join(drive.mountpoint, 'hello.txt'), 'Hello, drive.\n')
  console.log((await readdir(drive.mountpoint)).join(' '))
  console.log(await readFile(join(drive.mountpoint, 'hello.txt'), 'utf8'))
  try {
    await drive.sync()
  } catch (error) {
    if (!(error instanceof DriveError)) throw error
    console.error(`Not stored yet: ${error.message} (${error.code})`)
  }
  console.log(`${drive.status().outbox.length} changes wait.`)
} finally {
  const { kept } = await drive.unmount()
  console.log(`Unmounted; ${kept} changes are kept for the next mount.`)
}
