import type { IncomingMessage, ServerResponse } from 'node:http'
import { z } from 'zod'
import { wantedItems, wantedRestore } from '../control/protocol.ts'
import { readJson } from '../control/read-json.ts'
import { DriveError, type DriveErrorCode } from '../domain/errors.ts'
import type { Logger } from '../domain/logger.ts'
import { toPrintable } from '../domain/printable.ts'
import { answerWith, LoopbackServer } from '../loopback/loopback-server.ts'
import { Invitation } from './invitation.ts'
import type { PageFiles } from './page-files.ts'
import type { PageDone, PageRefusal, PageView } from './view.ts'
import type { WatchedDrive } from './watched-drive.ts'

interface PageServerDeps {
  readonly drive: WatchedDrive
  readonly watcher: { view(options: { readonly anew: boolean }): Promise<PageView> }
  readonly files: PageFiles
  readonly log: Logger
}

const OF_ANOTHER = 'This page is for the user that started bagfs status --web, and for no other.'

/** No code and no style but the page's own files, and nothing that text could become code by. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ')

const PAGE_HEADERS = {
  'content-security-policy': POLICY,
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'x-frame-options': 'DENY',
}

/** Serves the page of one drive at 127.0.0.1, to one browser of this user: the one that has the link. */
export class PageServer {
  readonly #server: LoopbackServer
  readonly #invitation: Invitation

  private constructor(server: LoopbackServer, invitation: Invitation) {
    this.#server = server
    this.#invitation = invitation
  }

  static async start(deps: PageServerDeps): Promise<PageServer> {
    const invitation = new Invitation()
    const server = await LoopbackServer.start(
      {
        answer: (request, response) => answer({ ...deps, invitation }, request, response),
        log: deps.log,
      },
      { host: '127.0.0.1', port: 0, others: { toldThat: OF_ANOTHER }, pages: 'own' },
    )
    return new PageServer(server, invitation)
  }

  /** Works once. Browsers keep what is behind the # to themselves. */
  get link(): string {
    return `${this.#server.origin}/#${this.#invitation.token}`
  }

  close(): Promise<void> {
    return this.#server.close()
  }
}

interface PageCall extends PageServerDeps {
  readonly invitation: Invitation
  readonly request: IncomingMessage
}

type PageRoute = (call: PageCall) => Promise<unknown>

/** What a page that was let in can ask, by method and path. */
const ROUTES: Readonly<Record<string, PageRoute>> = {
  'GET /view': ({ watcher }) => watcher.view({ anew: false }),
  'POST /retry': async (call) => {
    const done = await call.drive.retry((await readJson(call.request, wantedItems)).ids)
    return doneWith(call, `To be tried again: ${namesOf(done)}.`)
  },
  'POST /discard': async (call) => {
    const { ids: wanted } = await readJson(call.request, wantedItems)
    if (wanted.length === 0) throw new DriveError('usage', 'Say what to discard.')
    return doneWith(call, `Discarded: ${namesOf(await call.drive.discard(wanted))}.`)
  },
  'POST /restore': async (call) => {
    const { id, ...options } = await readJson(call.request, wantedRestore)
    const item = (await call.drive.trash()).find(({ bagId }) => bagId === id)
    await call.drive.restore(id, options)
    const view = await call.watcher.view({ anew: true })
    const when = view.presence === 'gone' ? 'To be restored by the next mount' : 'Restored'
    const said = `${when}: ${toPrintable(options.name ?? item?.name ?? id)}.`
    return { said, view } satisfies PageDone
  },
}

async function doneWith({ watcher }: PageCall, said: string): Promise<PageDone> {
  return { said, view: await watcher.view({ anew: true }) }
}

function namesOf(items: readonly { readonly name: string }[]): string {
  if (items.length === 0) return 'nothing'
  return items.map(({ name }) => toPrintable(name)).join(', ')
}

async function answer(
  deps: PageServerDeps & { readonly invitation: Invitation },
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { method = '', url = '/' } = request
  const path = url.split('?')[0] ?? '/'
  const file = deps.files.get(path)
  if (file !== undefined && method === 'GET') {
    answerWith(response, 200, file.content, { ...PAGE_HEADERS, 'content-type': file.type })
    return
  }
  try {
    sendJson(response, 200, await answerCall({ ...deps, request }, `${method} ${path}`))
  } catch (error) {
    if (!(error instanceof DriveError)) throw error
    sendJson(response, STATUSES[error.code] ?? 500, refusalOf(error))
  }
}

async function answerCall(call: PageCall, wanted: string): Promise<unknown> {
  if (wanted === 'POST /session') return takeSession(call)
  const { invitation, request } = call
  const handler = ROUTES[wanted]
  // Nothing is told without a session, not even what there is to ask.
  if (!invitation.admits(request.headers.authorization)) {
    throw new DriveError('unauthorized', 'This needs the link that bagfs status --web printed.')
  }
  if (handler === undefined) throw new DriveError('not-found', 'The page has nothing of that name.')
  return handler(call)
}

async function takeSession({ invitation, request }: PageCall): Promise<unknown> {
  const { token } = await readJson(request, z.object({ token: z.string() }))
  const taken = invitation.take(token)
  if (taken === 'used') {
    throw new DriveError('forbidden', 'This link was used before: it works once.')
  }
  if (taken === undefined) throw new DriveError('forbidden', 'This link is of no page that runs.')
  return taken
}

const STATUSES: Partial<Readonly<Record<DriveErrorCode, number>>> = {
  usage: 400,
  'bad-request': 400,
  unauthorized: 401,
  forbidden: 403,
  'not-found': 404,
  busy: 409,
  exists: 409,
}

function refusalOf({ code, message, facts: { hint } }: DriveError): PageRefusal {
  const refusal = { code, message: toPrintable(message) }
  return { ...refusal, ...(hint === undefined ? {} : { hint: toPrintable(hint) }) }
}

function sendJson(response: ServerResponse, status: number, value: unknown): void {
  answerWith(response, status, JSON.stringify(value), {
    ...PAGE_HEADERS,
    'content-type': 'application/json',
  })
}
