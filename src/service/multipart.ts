import { randomBytes } from 'node:crypto'
import { closeSync, fstatSync, openSync, readSync, type BigIntStats } from 'node:fs'
import { open, type FileHandle } from 'node:fs/promises'
import { DriveError, fromFileSystem } from '../domain/errors.ts'
import { isUnchanged } from '../domain/file-times.ts'
import type { StreamedBody } from './exchange.ts'

/** The file part of an upload and the field beside it. */
export interface UploadForm {
  readonly path: string
  /** Bytes that the file must have. */
  readonly length: number
  /** True when a change of its times while it is read is a change of what is in it. */
  readonly mayChange?: boolean
  /** Name of the part, raw UTF-8. */
  readonly fileName: string
  readonly contentType: string
  readonly description: string
  /** In place of what is in the file. */
  readonly pieces?: () => AsyncGenerator<Uint8Array>
}

/** A form whose file is open. `close` must be called. */
export interface OpenForm {
  /** The form with this description; `onProgress` gets the bytes of the file that were sent. */
  body(description: string, onProgress: (sentBytes: number) => void): StreamedBody
  readonly contentType: string
  close(): Promise<void>
}

/** Bytes per read of the disk. */
const BLOCK_BYTES = 512 * 1024
/** Bytes per write: a link of 2 KiB/s moves one within the usual limit on standing still. */
const SLICE_BYTES = 64 * 1024

/**
 * Opens the file of an upload. Rejects `local-io` when it is not there or, here or in its body, when it has another length
 * or changes while it is read.
 */
export async function openForm(form: UploadForm): Promise<OpenForm> {
  if (form.pieces === undefined && form.length <= SLICE_BYTES) {
    const content = readSmall(form)
    return makeForm(form, (frame) => inOnePiece(content, frame))
  }
  const opening = form.pieces === undefined ? open(form.path, 'r') : undefined
  const file = await opening?.catch((error: unknown) => {
    throw fromFileSystem(error, `Reading ${form.path}`)
  })
  return makeForm(
    form,
    (frame) => framed(form, file, frame),
    async () => file?.close(),
  )
}

function makeForm(
  form: UploadForm,
  pieces: (frame: Frame) => ReturnType<StreamedBody['pieces']>,
  close: OpenForm['close'] = () => Promise.resolve(),
): OpenForm {
  const boundary = `bagfs-${randomBytes(16).toString('hex')}`
  return {
    contentType: `multipart/form-data; boundary=${boundary}`,
    body: (description, onProgress) => {
      const head = Buffer.from(headOf({ ...form, description }, boundary))
      const tail = Buffer.from(`\r\n--${boundary}--\r\n`)
      return {
        length: head.length + form.length + tail.length,
        pieces: () => pieces({ head, tail, onProgress }),
      }
    },
    close,
  }
}

interface Frame {
  readonly head: Buffer
  readonly tail: Buffer
  readonly onProgress: (sentBytes: number) => void
}

/** Within the call: what was written a moment ago is in memory, and several calls of other threads take longer than one read. */
function readSmall(form: UploadForm): Buffer {
  // One byte more tells whether the file has become longer.
  const block = Buffer.allocUnsafe(form.length + 1)
  let length: number
  try {
    const fd = openSync(form.path, 'r')
    try {
      const before = fstatSync(fd, { bigint: true })
      length = readSync(fd, block, 0, block.length, 0)
      refuseChanged(form, before, fstatSync(fd, { bigint: true }))
    } finally {
      closeSync(fd)
    }
  } catch (error) {
    throw fromFileSystem(error, `Reading ${form.path}`)
  }
  if (length !== form.length) throw changed(form, length)
  return block.subarray(0, length)
}

// eslint-disable-next-line @typescript-eslint/require-await -- a body is asynchronous, and this one is here already
async function* inOnePiece(
  content: Buffer,
  { head, tail, onProgress }: Frame,
): AsyncGenerator<{ bytes: Uint8Array; isLast: boolean }> {
  onProgress(0)
  yield { bytes: Buffer.concat([head, content]), isLast: false }
  onProgress(content.length)
  yield { bytes: tail, isLast: true }
}

async function* framed(
  form: UploadForm,
  file: FileHandle | undefined,
  { head, tail, onProgress }: Frame,
): AsyncGenerator<{ bytes: Uint8Array; isLast: boolean }> {
  const blocks =
    file === undefined ? form.pieces?.() : blocksOf(form, file, await lookAt(form, file))
  onProgress(0)
  yield { bytes: head, isLast: false }
  let sent = 0
  for await (const block of blocks ?? []) {
    for (let at = 0; at < block.length; at += SLICE_BYTES) {
      const bytes = block.subarray(at, at + SLICE_BYTES)
      if (sent + bytes.length > form.length) throw changed(form, sent + bytes.length)
      yield { bytes, isLast: false }
      sent += bytes.length
      onProgress(sent)
    }
  }
  if (sent !== form.length) throw changed(form, sent)
  yield { bytes: tail, isLast: true }
}

async function* blocksOf(
  form: UploadForm,
  file: FileHandle,
  before: BigIntStats,
): AsyncGenerator<Uint8Array> {
  for (let position = 0; position < form.length;) {
    const block = await readBlock(form, file, position)
    yield block
    position += block.length
  }
  refuseChanged(form, before, await lookAt(form, file))
}

async function readBlock(form: UploadForm, file: FileHandle, position: number): Promise<Buffer> {
  const block = Buffer.allocUnsafe(Math.min(BLOCK_BYTES, form.length - position))
  const { bytesRead } = await file
    .read(block, 0, block.length, position)
    .catch((error: unknown) => {
      throw fromFileSystem(error, `Reading ${form.path}`)
    })
  if (bytesRead === 0) throw changed(form, position)
  return block.subarray(0, bytesRead)
}

async function lookAt(form: UploadForm, file: FileHandle): Promise<BigIntStats> {
  const stats = await file.stat({ bigint: true })
  if (stats.size !== BigInt(form.length)) throw changed(form, Number(stats.size))
  return stats
}

function refuseChanged(form: UploadForm, before: BigIntStats, after: BigIntStats): void {
  if (form.mayChange !== true || isUnchanged(before, after)) return
  throw new DriveError('local-io', `${form.path} changed while it was to be uploaded.`, AGAIN)
}

const AGAIN = { hint: 'Try again when nothing writes to it.' }

function changed(form: UploadForm, length: number): DriveError {
  return new DriveError(
    'local-io',
    `${form.path} has ${length} bytes and not ${form.length}: it changed while it was to be uploaded.`,
    AGAIN,
  )
}

/** The description goes first, so that a service that streams knows it before the file comes. */
function headOf(form: UploadForm, boundary: string): string {
  return [
    `--${boundary}`,
    'Content-Disposition: form-data; name="description"',
    '',
    form.description,
    `--${boundary}`,
    `Content-Disposition: form-data; ${nameFilePart(form.fileName)}`,
    `Content-Type: ${form.contentType}`,
    '',
    '',
  ].join('\r\n')
}

/**
 * The parameters of the file part. A name that a quoted text cannot carry in one way for all goes a
 * second time in the form of RFC 8187. The name of the field is last then: parsers with a quick way for
 * its usual place never look behind `filename`. A line end makes others refuse the whole part, so such
 * a name goes as browsers send it, and no second time.
 */
function nameFilePart(name: string): string {
  const plain = `filename="${escapeQuoted(name)}"`
  if (!/["\\]/.test(name) || /[\r\n]/.test(name)) return `name="file"; ${plain}`
  const coded = encodeURIComponent(name).replace(
    /['()*]/g,
    (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`,
  )
  return `${plain}; filename*=UTF-8''${coded}; name="file"`
}

/** What browsers do, and `\` as a quoted text has it: at the end of a name it would take the quote with it. */
function escapeQuoted(name: string): string {
  return name
    .replaceAll('\\', '\\\\')
    .replaceAll('"', '%22')
    .replaceAll('\r', '%0D')
    .replaceAll('\n', '%0A')
}
