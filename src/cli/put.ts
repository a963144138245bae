import { mkdtemp, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join, resolve } from 'node:path'
import type { Command } from '@commander-js/extra-typings'
import type { Stats } from 'node:fs'
import { refuseEmpty } from '../config/paths.ts'
import { formatSize } from '../config/sizes.ts'
import { DriveError, fromFileSystem, isAbsent, isDriveError } from '../domain/errors.ts'
import type { BagId } from '../domain/ids.ts'
import type { UploadSource } from '../service/storage-service.ts'
import { profileOption, tokenFileOption, urlOption, withAccount } from './account.ts'
import type { AccountAccess } from './account.ts'
import type { CommandContext } from './context.ts'
import { packFolder } from './pack-folder.ts'
import type { Output } from './output.ts'
import { withProgress } from './progress.ts'

/** A file or a folder on this machine that is to become a bag. */
interface LocalItem {
  readonly path: string
  readonly name: string
  readonly description: string
  readonly stats: Stats
}

export function addPut(program: Command, context: CommandContext): void {
  program
    .command('put')
    .description('upload files and folders; prints the bag id of each')
    .argument('<paths...>', 'files and folders')
    .option('--description <text>', 'description of the new bags', '')
    .option('--name <name>', 'name of the new bag, instead of its own')
    .addOption(urlOption())
    .addOption(tokenFileOption())
    .addOption(profileOption())
    .action(async (paths, flags) => {
      const items = await findItems(paths, flags)
      await withAccount(context, flags, async (access) => {
        for (const item of items) {
          const bagId = await putItem(context.output, access, item)
          context.output.line(items.length === 1 ? bagId : `${bagId}  ${item.path}`)
        }
      })
    })
}

/** Looks at everything before anything is sent. */
function findItems(
  paths: readonly string[],
  flags: { readonly name?: string; readonly description: string },
): Promise<readonly LocalItem[]> {
  const { name, description } = flags
  if (name !== undefined && paths.length > 1) {
    throw new DriveError('usage', '--name goes with one file or folder only.')
  }
  if (name !== undefined && /^$|[/\p{Cc}]/u.test(name)) {
    throw new DriveError('usage', `${JSON.stringify(name)} cannot be the name of a bag.`, {
      hint: 'A name has no slash, no line end and no other control character.',
    })
  }
  paths.forEach(refuseEmpty)
  return Promise.all(
    paths.map(async (path) => ({
      path,
      name: name ?? basename(resolve(path)),
      description,
      stats: await statItem(path),
    })),
  )
}

async function statItem(path: string): Promise<Stats> {
  try {
    const stats = await stat(path)
    if (stats.isFile() || stats.isDirectory()) return stats
  } catch (error) {
    if (!isAbsent(error)) throw fromFileSystem(error, path)
    throw new DriveError('not-found', `${path} does not exist.`, { cause: error })
  }
  throw new DriveError('usage', `${path} is neither a file nor a folder.`)
}

async function putItem(output: Output, access: AccountAccess, item: LocalItem): Promise<BagId> {
  const { path, name, description, stats } = item
  if (stats.isDirectory()) return putFolder(output, access, item)
  const file = { path, length: stats.size, mayChange: true }
  return send(output, access, 'uploadFile', { ...file, name, description })
}

async function putFolder(output: Output, access: AccountAccess, item: LocalItem): Promise<BagId> {
  const directory = await mkdtemp(join(tmpdir(), 'bagfs-put-'))
  try {
    const zip = join(directory, 'folder.zip')
    const length = await packFolder(item.path, zip, {
      signal: access.signal,
      onSkipped: (path) => {
        output.note(`bagfs: left out ${path}: neither a file, a folder nor a link.`)
      },
    })
    const { name, description } = item
    return await send(output, access, 'uploadFolder', { path: zip, length, name, description })
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

async function send(
  output: Output,
  access: AccountAccess,
  how: 'uploadFile' | 'uploadFolder',
  source: UploadSource,
): Promise<BagId> {
  const { service, signal } = access
  const transfer = { label: source.name, totalBytes: source.length }
  try {
    return await withProgress(output, transfer, (onProgress) =>
      service[how](source, { signal, onProgress }),
    )
  } catch (error) {
    throw await explained(error, access, source)
  }
}

/** A service may refuse what does not fit as a bad request; then the account tells what it was. */
async function explained(
  error: unknown,
  { service, signal }: AccountAccess,
  { name, length }: UploadSource,
): Promise<unknown> {
  if (!isDriveError(error, 'bad-request')) return error
  const { spaceLeft } = await service.getAccount({ signal })
  if (spaceLeft >= length) return error
  const sizes = `it has ${formatSize(length)}, and ${formatSize(spaceLeft)} are left`
  return new DriveError('no-space', `${name} does not fit into the account: ${sizes}.`, {
    cause: error,
  })
}
