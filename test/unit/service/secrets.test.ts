import { once } from 'node:events'
import { inspect } from 'node:util'
import { describe, expect, it } from 'vitest'
import { DriveError } from '../../../src/domain/errors.ts'
import { toBagId } from '../../../src/domain/ids.ts'
import { Auth } from '../../../src/service/auth.ts'
import { makeRedact } from '../../../src/service/redact.ts'
import { fromTransport } from '../../../src/service/transport-errors.ts'
import {
  bytesOf,
  failureOf,
  fileToUpload,
  json,
  recordingLog,
  scripted,
  serviceFor,
  TOKEN,
  type Script,
} from './harness.ts'

const bag = toBagId('b1')
const ECHO = `you sent ${TOKEN} (${encodeURIComponent(TOKEN)})`

/** Ways to fail that hand the token back to the client where they can. */
const FAILURES: Readonly<Record<string, Script>> = {
  ...Object.fromEntries(
    [400, 401, 403, 404, 413, 422, 429, 500, 503].map((status): [string, Script] => [
      `status ${status}`,
      (_request, response) => {
        response.setHeader('x-echo', TOKEN)
        json(response, { detail: [{ loc: ['body', TOKEN], msg: ECHO, type: TOKEN }] }, status)
      },
    ]),
  ),
  text: (_request, response) => response.writeHead(500).end(ECHO),
  page: (_request, response) => response.writeHead(502).end(`<title>${ECHO}</title>`),
  'other JSON': (_request, response) => {
    json(response, { [TOKEN]: ECHO }, 500)
  },
  'web page as answer': (_request, response) => response.writeHead(200).end(`<p>${ECHO}`),
  'wrong list': (_request, response) => {
    json(response, [{ filename: ECHO }, ECHO, { bag_id: [TOKEN], filename: [TOKEN] }])
  },
  redirect: (_request, response) =>
    response.writeHead(307, { location: `http://${TOKEN.slice(0, 9)}.example/${ECHO}` }).end(),
  'content type': (_request, response) =>
    response.writeHead(200, { 'content-encoding': TOKEN }).end(ECHO),
  range: (_request, response) => response.writeHead(206, { 'content-range': ECHO }).end(ECHO),
  'not HTTP': (_request, response) => response.socket?.end(`${ECHO}\r\n\r\n`),
  cut: (_request, response) => response.socket?.destroy(),
}

/** Every error reachable from this one, and all that can be printed of it. */
function printed(value: unknown): string {
  const texts = [inspect(value, { depth: 20, showHidden: true }), JSON.stringify(value)]
  if (!(value instanceof Error)) return texts.join('\n')
  const facts = value instanceof DriveError ? printed(value.facts) : ''
  return [...texts, value.stack, facts, String(value.cause)].join('\n')
}

describe('the token', () => {
  it.each(Object.keys(FAILURES))('is in no error and no log line after: %s', async (name) => {
    const server = await scripted(FAILURES[name] ?? (() => undefined))
    const log = recordingLog()
    const service = serviceFor(server.url, { retries: 1, metadataTimeoutMs: 500 }, log)
    const source = await fileToUpload('x', { description: '' })
    const outcomes = await Promise.allSettled([
      service.uploadFile(source),
      service.uploadFolder(source),
      service.addById(bag),
      service.download(bag).then(({ body }) => bytesOf(body)),
      service.deleteBag(bag),
      service.listFiles(),
      service.getAccount(),
    ])
    const errors = outcomes.flatMap((one): unknown[] =>
      one.status === 'rejected' ? [one.reason] : [],
    )
    expect(errors.length).toBeGreaterThan(0)
    for (const value of [...errors, ...log.lines, service]) {
      expect(printed(value)).not.toContain(TOKEN)
      expect(printed(value)).not.toContain(encodeURIComponent(TOKEN))
    }
    for (const error of errors) expect(error).toBeInstanceOf(DriveError)
  })

  it('is in no error made of a foreign one', () => {
    const foreign = Object.assign(new Error(`bad header ${TOKEN}`), { code: 'EODD', data: TOKEN })
    expect(printed(fromTransport(foreign, 'Listing', makeRedact([TOKEN])))).not.toContain(TOKEN)
  })
})

describe('a token that is refused', () => {
  const NEW = 'new-8d1e+/=44c'
  const account = { uid: 'u', space_left: 1, capacity: 2 }
  const onlyNew: Script = ({ headers }, response) => {
    const isNew = headers.authorization === `Bearer ${NEW}`
    json(response, isNew ? account : { detail: headers }, isNew ? 200 : 401)
  }

  it('gives way to a new one after one look for it, and the new one shows nowhere', async () => {
    let isOver = false
    const server = await scripted((received, response, turn) => {
      if (isOver) json(response, { detail: received.headers.authorization }, 403)
      else onlyNew(received, response, turn)
    })
    const refused: string[] = []
    const log = recordingLog()
    const renewToken = (token: string): Promise<string> => {
      refused.push(token)
      return Promise.resolve(NEW)
    }
    const service = serviceFor(server.url, { renewToken }, log)
    const answers = await Promise.all([service.getAccount(), service.getAccount()])
    expect(answers.map(({ uid }) => uid)).toEqual(['u', 'u'])
    expect(refused).toEqual([TOKEN])
    isOver = true
    const failure = await failureOf(service.getAccount())
    expect(failure.code).toBe('forbidden')
    expect(failure.message).toContain('Bearer ***')
    expect(inspect([failure, log.lines], { depth: 9 })).not.toContain(NEW)
  })

  it('is looked for once by all who were refused meanwhile, and again the next time', async () => {
    const refused: string[] = []
    const found: ((token: string | undefined) => void)[] = []
    const auth = new Auth({
      token: TOKEN,
      authHeader: 'bearer',
      onAuthHeader: () => undefined,
      renewToken: (token) => {
        refused.push(token)
        return new Promise((resolve) => found.push(resolve))
      },
    })
    const both = [auth.renew(TOKEN), auth.renew(TOKEN)]
    found[0]?.(NEW)
    expect(await Promise.all(both)).toEqual([true, true])
    expect(auth.token).toBe(NEW)
    const again = auth.renew(NEW)
    found[1]?.(undefined)
    expect(await again).toBe(false)
    expect(refused).toEqual([TOKEN, NEW])
  })

  it('is not waited for to the end of its answer', async () => {
    const gone: Promise<unknown>[] = []
    const server = await scripted(({ headers }, response) => {
      if (headers.authorization === `Bearer ${NEW}`) {
        json(response, account)
        return
      }
      gone.push(once(response, 'close'))
      response.writeHead(401, { 'content-length': 2 ** 30 })
      response.write('{')
    })
    const service = serviceFor(server.url, {
      renewToken: () => Promise.resolve(NEW),
      stallTimeoutMs: 3_600_000,
      metadataTimeoutMs: 3_600_000,
    })
    expect(await service.getAccount()).toMatchObject({ uid: 'u' })
    await Promise.all(gone)
    expect(gone).toHaveLength(2)
  })

  it('stays refused when there is no other', async () => {
    const server = await scripted(onlyNew)
    const renewToken = (): Promise<undefined> => Promise.resolve(undefined)
    const failure = await failureOf(serviceFor(server.url, { renewToken }).getAccount())
    expect(failure.code).toBe('unauthorized')
    expect(server.received).toHaveLength(2)
  })
})
