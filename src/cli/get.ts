import { createWriteStream } from 'node:fs'
import { mkdir, open } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { pipeline } from 'node:stream/promises'
import type { Command } from '@commander-js/extra-typings'
import { Silence } from '../content/silence.ts'
import { systemClock } from '../domain/clock.ts'
import { DriveError, fromFileSystem, systemErrorCode } from '../domain/errors.ts'
import { isZipName, withoutZip } from '../domain/folder-names.ts'
import type { BagId } from '../domain/ids.ts'
import { kindFromHead } from '../zip/detect.ts'
import { profileOption, tokenFileOption, urlOption, withAccount } from './account.ts'
import type { AccountAccess } from './account.ts'
import { beginDownload, checkEnd, contentOf } from './begin-download.ts'
import { chooseBags } from './choose-bags.ts'
import type { CommandContext } from './context.ts'
import { findDestination, isSpecialFile, publish, withDraft } from './destination.ts'
import type { Output } from './output.ts'
import { withProgress } from './progress.ts'
import { beliefIn, saveDownload } from './save-download.ts'
import type { SavedDownload } from './save-download.ts'
import { unpackFolder } from './unpack-folder.ts'

/** The bag to get. `name` is undefined for a bag that the listing does not have. */
interface Wanted {
  readonly bagId: BagId
  readonly name: string | undefined
  readonly size: number | undefined
}

export function addGet(program: Command, context: CommandContext): void {
  program
    .command('get')
    .description('download a bag; a folder is unpacked')
    .argument('<bag>', 'bag id, or a name (the newest of that name)')
    .argument('[dest]', 'file or directory to write to, - for stdout (default: here, by its name)')
    .option('--zip', 'keep a folder as the zip that it is stored as')
    .addOption(urlOption())
    .addOption(tokenFileOption())
    .addOption(profileOption())
    .action((bag, dest, flags) =>
      withAccount(context, flags, async (access) => {
        const wanted = await findWanted(context.output, access, bag)
        const sink = await sinkOf(context.output, dest)
        if (sink !== undefined) await stream(access, wanted, sink)
        else await save(context.output, access, wanted, { dest, keepZip: flags.zip === true })
      }),
    )
}

async function findWanted(output: Output, access: AccountAccess, text: string): Promise<Wanted> {
  const { service, signal } = access
  const chosen = chooseBags(await service.listFiles({ signal }), text, { orZip: true })
  if (chosen.by === 'id') {
    return { bagId: chosen.bagId, name: chosen.record?.name, size: chosen.record?.size }
  }
  const [newest, ...older] = chosen.records
  if (older.length > 0) {
    output.note(`There are ${older.length + 1} bags named "${text}"; this is the newest.`)
  }
  return newest
}

/** Takes content as it comes; resolves with its length, or undefined when its reader has left. */
type Sink = (content: AsyncIterable<Buffer>) => Promise<number | undefined>

/** Where content goes as it comes; undefined for a destination that gets it whole, or not at all. */
async function sinkOf(output: Output, dest: string | undefined): Promise<Sink | undefined> {
  if (dest === undefined) return undefined
  if (dest === '-') return (content) => output.pipe(content)
  return (await isSpecialFile(resolve(dest))) ? writingTo(dest) : undefined
}

function writingTo(path: string): Sink {
  return async (content) => {
    const target = createWriteStream(path)
    try {
      await pipeline(content, target)
    } catch (error) {
      throw systemErrorCode(error) === undefined ? error : fromFileSystem(error, `Writing ${path}`)
    }
    return target.bytesWritten
  }
}

/** The bag goes as it is stored; half of it is an error, whatever has been written by then. */
async function stream(access: AccountAccess, wanted: Wanted, sink: Sink): Promise<void> {
  const belief = beliefIn(wanted.size)
  const silence = new Silence(systemClock, access.silenceMs)
  const download = await beginDownload(access, wanted.bagId, { belief, silence })
  const length = await sink(contentOf(download, silence))
  if (length !== undefined) checkEnd(download, length, belief)
}

async function save(
  output: Output,
  access: AccountAccess,
  wanted: Wanted,
  how: { readonly dest: string | undefined; readonly keepZip: boolean },
): Promise<void> {
  const destination = await findDestination(how.dest)
  await withDraft(destination.directory, async (draft) => {
    const content = join(draft, 'content')
    const saved = await withProgress(
      output,
      { label: wanted.name ?? wanted.bagId, totalBytes: wanted.size },
      (onProgress) => saveDownload(access, wanted, content, onProgress),
    )
    const recordName = wanted.name ?? saved.fileName ?? wanted.bagId
    const isFolder = !how.keepZip && (await isFolderZip(content, saved, recordName))
    // Some services list the folder NAME as NAME.zip.
    const name = isFolder && isZipName(recordName) ? withoutZip(recordName) : recordName
    const skipped = isFolder ? await unpack(content, draft, name, { output, access }) : 0
    const path = await publish(join(draft, isFolder ? 'tree' : 'content'), destination, name)
    output.line(path)
    if (skipped > 0) throw incomplete(skipped)
  })
}

/** As much as kindFromHead wants to see. */
const HEAD_BYTES = 2_048

async function isFolderZip(
  path: string,
  { contentType, fileName }: SavedDownload,
  recordName: string,
): Promise<boolean> {
  const bytes = await readHead(path)
  return kindFromHead({ bytes, contentType, fileName, recordName }) === 'folder'
}

async function readHead(path: string): Promise<Uint8Array> {
  const file = await open(path, 'r')
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(HEAD_BYTES), 0, HEAD_BYTES, 0)
    return buffer.subarray(0, bytesRead)
  } finally {
    await file.close()
  }
}

/** Unpacks into `draft`/tree; resolves with how many entries could not be read. */
async function unpack(
  zip: string,
  draft: string,
  folderName: string,
  { output, access }: { readonly output: Output; readonly access: AccountAccess },
): Promise<number> {
  const tree = join(draft, 'tree')
  await mkdir(tree)
  let skipped = 0
  const onSkipped = (path: string, error: DriveError): void => {
    skipped += 1
    output.note(`bagfs: left out ${path}: ${error.message}`)
  }
  await unpackFolder(zip, tree, { folderName, signal: access.signal, onSkipped })
  return skipped
}

function incomplete(skipped: number): DriveError {
  const what = skipped === 1 ? 'One file' : `${skipped} files`
  return new DriveError('corrupt', `${what} of the folder could not be read.`, {
    hint: 'With --zip the folder is kept as the zip that it is stored as.',
  })
}
