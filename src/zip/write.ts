import { open, rm } from 'node:fs/promises'
import { DriveError, fromFileSystem } from '../domain/errors.ts'
import { ahead } from './ahead.ts'
import { ArchiveFile, type ByteSink } from './archive-file.ts'
import { pack } from './pack.ts'
import type { ReadyMember } from './pack.ts'
import type { Plan } from './plan.ts'
import { centralRecord, dataDescriptor, endRecords, localHeader } from './zip-encode.ts'
import { FLAG } from './zip-format.ts'

export interface WriteArchiveOptions {
  readonly signal?: AbortSignal
  /** The archive may not be longer: many members of a hostile zip can share the same bytes. */
  readonly maxBytes?: number
}

export interface WrittenArchive {
  /** Bytes. */
  readonly length: number
  /** 64 hex digits. */
  readonly sha256: string
  readonly members: number
}

/** Members that are read and compressed while an earlier one is written; memory is bounded by it. */
const AHEAD = 8

/**
 * Writes a folder's zip to `targetPath`, which must not exist (made 0600, not fsynced). The same plan
 * over the same content gives the same bytes, in every time zone.
 * @throws DriveError `invalid` (a path twice), `bad-name`, `name-too-long`, `busy` (a file changed
 * meanwhile), `too-large`, `interrupted`, `local-disk-full`, `local-io`, or what an archive's
 * source rejects with. Nothing is left at `targetPath` then.
 */
export async function writeArchive(
  plan: Plan,
  targetPath: string,
  options: WriteArchiveOptions = {},
): Promise<WrittenArchive> {
  const what = 'Packing the folder'
  const handle = await open(targetPath, 'wx', 0o600).catch((error: unknown) => {
    throw fromFileSystem(error, what)
  })
  try {
    try {
      return await writeMembers(plan, new ArchiveFile(handle), options)
    } finally {
      await handle.close()
    }
  } catch (error) {
    await rm(targetPath, { force: true })
    throw fromFileSystem(error, what)
  }
}

/** As `writeArchive`, to a sink that keeps no file. */
export async function streamArchive(
  plan: Plan,
  sink: ByteSink,
  options: WriteArchiveOptions = {},
): Promise<WrittenArchive> {
  try {
    return await writeMembers(plan, new ArchiveFile(sink), options)
  } catch (error) {
    throw fromFileSystem(error, 'Packing the folder')
  }
}

async function writeMembers(
  plan: Plan,
  file: ArchiveFile,
  options: WriteArchiveOptions,
): Promise<WrittenArchive> {
  const directory: Buffer[] = []
  const names = new Set<string>()
  for await (const packed of ahead(plan, AHEAD, (item) => pack(item, options.signal))) {
    const name = packed.head.name.toString()
    if (names.has(name)) throw new DriveError('invalid', `"${name}" is in the folder twice.`)
    names.add(name)
    directory.push(await writeMember(packed, file, options.maxBytes ?? Infinity))
  }
  const offset = file.length
  for (const record of directory) await file.write(record)
  await file.write(endRecords({ count: directory.length, size: file.length - offset, offset }))
  return { sha256: await file.finish(), length: file.length, members: directory.length }
}

/** Writes one member and returns its central record. */
async function writeMember(
  packed: ReadyMember,
  file: ArchiveFile,
  maxBytes: number,
): Promise<Buffer> {
  const offset = file.length
  await file.write(localHeader(packed.head, offset))
  const measure = await packed.writeData(async (bytes) => {
    if (file.length + bytes.length > maxBytes) {
      throw new DriveError('too-large', `The folder's zip is over ${maxBytes} bytes.`)
    }
    await file.write(bytes)
  })
  const head = { ...packed.head, measure }
  if ((head.flags & FLAG.descriptor) !== 0) await file.write(dataDescriptor(head))
  return centralRecord(head, offset)
}
