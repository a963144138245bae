import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { FileHandle } from 'node:fs/promises'
import { create as contentDisposition } from 'content-disposition'
import type {
  AddedWire,
  DeletedWire,
  FileRecordWire,
  UploadedWire,
  UserWire,
} from '../service/wire.ts'
import type { UploadKind, HeldBag } from './account.ts'
import { rejectField, sendJson } from './answers.ts'
import type { BagStore } from './bag-store.ts'
import { answerRange } from './byte-range.ts'
import { exchangeOf } from './exchange.ts'
import { readBagId, readUploadForm } from './forms.ts'
import type { ReceivedForm } from './forms.ts'

export interface RouteDependencies {
  readonly store: BagStore
  readonly extraRecords: () => readonly FileRecordWire[]
}

/** The seven endpoints of docs/SERVICE.md. */
export function addRoutes(app: FastifyInstance, deps: RouteDependencies): void {
  const { store } = deps
  app.post('/api/files/upload', (request, reply) => upload(store, 'file', request, reply))
  app.post('/api/folders/upload', (request, reply) => upload(store, 'folder', request, reply))
  app.post('/api/bag/add_by_id', (request, reply) => addById(store, request, reply))
  app.delete('/api/bag', (request, reply) => deleteBag(store, request, reply))
  app.get('/api/user/files_list', (request, reply) => listFiles(deps, request, reply))
  app.get('/api/user', (request, reply) => getUser(store, request, reply))
  app.get<{ Params: { bag_id: string } }>('/api/bag/download/:bag_id', (request, reply) =>
    download(store, request.params.bag_id, request, reply),
  )
}

async function upload(
  store: BagStore,
  kind: UploadKind,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const exchange = exchangeOf(request)
  const account = store.account(exchange.uid)
  const form = await readUploadForm(request, store, (name) =>
    account.receivable(nameOf(kind, name)),
  )
  exchange.name = form.name
  exchange.bytes = form.content.length
  if (kind === 'folder') await refuseUnlessFolder(store, form)
  const label = { kind, name: nameOf(kind, form.name), description: form.description }
  exchange.bagId = await store.add(exchange.uid, label, form.content)
  return sendJson(reply, JSON.stringify({ bag_id: exchange.bagId } satisfies UploadedWire))
}

/** The record of a folder has the name of the folder; the part that brings it is called NAME.zip. */
function nameOf(kind: UploadKind, sent: string): string {
  return kind === 'folder' ? sent.replace(/\.zip$/i, '') : sent
}

/** A zip begins with the signature of a member, or, when it is empty, of the end of its directory. */
const ZIP_HEADS = ['504b0304', '504b0506']

async function refuseUnlessFolder(store: BagStore, form: ReceivedForm): Promise<void> {
  const isZip = ZIP_HEADS.includes(form.content.head.toString('hex'))
  if (isZip && nameOf('folder', form.name) !== '') return
  await store.discard(form.content)
  throw rejectField('file', isZip ? 'Must be a file with a name' : 'Must be a zip archive')
}

async function addById(
  store: BagStore,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const exchange = exchangeOf(request)
  exchange.bagId = await readBagId(request)
  await store.import(exchange.uid, exchange.bagId)
  return sendJson(reply, JSON.stringify({ message: 'Bag added' } satisfies AddedWire))
}

async function deleteBag(
  store: BagStore,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const exchange = exchangeOf(request)
  exchange.bagId = await readBagId(request)
  await store.remove(exchange.uid, exchange.bagId)
  return sendJson(reply, JSON.stringify({ success: true } satisfies DeletedWire))
}

function listFiles(
  deps: RouteDependencies,
  request: FastifyRequest,
  reply: FastifyReply,
): FastifyReply {
  const account = deps.store.account(exchangeOf(request).uid)
  const extra = deps.extraRecords()
  const json =
    extra.length === 0 ? account.listingJson() : JSON.stringify([...account.records(), ...extra])
  return sendJson(reply, json)
}

function getUser(store: BagStore, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const account = store.account(exchangeOf(request).uid)
  const user: UserWire = {
    uid: account.uid,
    space_left: account.spaceLeftBytes(),
    capacity: account.capacityBytes,
  }
  return sendJson(reply, JSON.stringify(user))
}

async function download(
  store: BagStore,
  bagId: string,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const exchange = exchangeOf(request)
  exchange.bagId = bagId
  const { bag, file } = await store.openContent(exchange.uid, bagId)
  const length = bag.record.size
  const etag = `"${bagId}"`
  describe(reply, bag).header('etag', etag)
  const ifRange = request.headers['if-range']
  const wanted = ifRange === undefined || ifRange === etag ? request.headers.range : undefined
  const range = answerRange(wanted, length)
  if (range.kind === 'whole') return sendBytes(reply, file, 0, length)
  if (range.kind === 'unsatisfiable') {
    await file.close()
    return sendUnsatisfiable(reply, length)
  }
  reply.code(206).header('content-range', `bytes ${range.start}-${range.end - 1}/${length}`)
  return sendBytes(reply, file, range.start, range.end)
}

/** Headers that tell what a download is. */
function describe(reply: FastifyReply, { kind, record }: HeldBag): FastifyReply {
  const name = kind === 'folder' ? `${record.filename}.zip` : record.filename
  return reply
    .header('content-type', kind === 'folder' ? 'application/zip' : 'application/octet-stream')
    .header('content-disposition', contentDisposition(name))
    .header('accept-ranges', 'bytes')
}

const READ_BYTES = 512 * 1024

async function sendBytes(
  reply: FastifyReply,
  file: FileHandle,
  start: number,
  end: number,
): Promise<FastifyReply> {
  exchangeOf(reply.request).bytes = end - start
  reply.header('content-length', end - start)
  if (start < end) {
    return reply.send(file.createReadStream({ start, end: end - 1, highWaterMark: READ_BYTES }))
  }
  await file.close()
  return reply.send(Buffer.alloc(0))
}

function sendUnsatisfiable(reply: FastifyReply, length: number): FastifyReply {
  const detail = [
    {
      loc: ['header', 'Range'],
      msg: `The bag has ${length} bytes.`,
      type: 'range_not_satisfiable',
    },
  ]
  reply.code(416).header('content-range', `bytes */${length}`)
  return sendJson(reply.removeHeader('content-disposition'), JSON.stringify({ detail }))
}
