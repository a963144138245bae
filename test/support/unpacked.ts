import { execFile } from 'node:child_process'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { promisify } from 'node:util'
import type { TestService } from './mounted-drive.ts'

/** Unpacks what the service has for a folder, by a program that is not ours, to a directory made anew. */
export async function unpackFolder(
  service: TestService,
  name: string,
  target: string,
): Promise<void> {
  const zip = `${target}.zip`
  rmSync(target, { recursive: true, force: true })
  writeFileSync(zip, await service.contentOf(name))
  mkdirSync(target)
  const env = { ...process.env, LC_ALL: 'C.UTF-8' }
  await promisify(execFile)('unzip', ['-qq', '-o', zip, '-d', target], { env })
}
