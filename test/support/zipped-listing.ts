import type http from 'node:http'
import type { FileRecordWire } from '../../src/service/wire.ts'

/** A listing that calls each folder NAME.zip, as the part was called that brought it. */
export class ZippedListing {
  readonly #target: string
  /** By bag id, which tells the same of a bag for ever. */
  readonly #isFolder = new Map<string, boolean>()

  constructor(target: string) {
    this.#target = target
  }

  async answer(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
    const { authorization = '' } = request.headers
    const answer = await fetch(`${this.#target}/api/user/files_list`, {
      headers: { authorization },
    })
    const records = (await answer.json()) as FileRecordWire[]
    const listed = await Promise.all(
      records.map(async (record) =>
        (await this.#ask(record.bag_id, authorization))
          ? { ...record, filename: `${record.filename}.zip` }
          : record,
      ),
    )
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(listed))
  }

  /** The embedded service tells a folder by the type of its download. */
  async #ask(bagId: string, authorization: string): Promise<boolean> {
    const known = this.#isFolder.get(bagId)
    if (known !== undefined) return known
    const { headers, body } = await fetch(`${this.#target}/api/bag/download/${bagId}`, {
      headers: { authorization, range: 'bytes=0-0' },
    })
    await body?.cancel()
    const isFolder = headers.get('content-type') === 'application/zip'
    this.#isFolder.set(bagId, isFolder)
    return isFolder
  }
}
