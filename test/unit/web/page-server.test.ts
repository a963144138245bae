import { readFile } from 'node:fs/promises'
import { request, type IncomingHttpHeaders } from 'node:http'
import { text } from 'node:stream/consumers'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { WireItem, WireTrashItem } from '../../../src/control/protocol.ts'
import { systemClock } from '../../../src/domain/clock.ts'
import { DriveError } from '../../../src/domain/errors.ts'
import { silentLogger } from '../../../src/domain/logger.ts'
import { PageServer } from '../../../src/web/page-server.ts'
import type { PageView } from '../../../src/web/view.ts'
import type { WatchedDrive } from '../../../src/web/watched-drive.ts'
import { Watcher } from '../../../src/web/watcher.ts'
import { asOther } from '../../support/other-user.ts'
import { EMPTY_STATUS } from '../metrics/figures.ts'

const change: WireItem = {
  id: '7',
  name: 'a\n.txt',
  kind: 'put',
  phase: 'waiting',
  state: 'waiting',
}
const deleted: WireTrashItem = {
  ...{ bagId: 'b1', name: 'old.txt', why: 'deleted', isFolder: false, length: 5 },
  deletedAtMs: 0,
}
const ITS_FILES = new Map(
  ['/', '/page.js'].map((path) => [path, { type: 'text/plain', content: Buffer.from(path) }]),
)

interface Served {
  readonly origin: string
  readonly token: string
  /** What was asked of the drive. */
  readonly asked: unknown[]
}

async function serve(some: Partial<WatchedDrive> = {}): Promise<Served> {
  const asked: unknown[] = []
  const drive: WatchedDrive = {
    mountpoint: '/drive',
    mountAgain: () => 'bagfs mount /drive',
    status: () => Promise.resolve({ ...EMPTY_STATUS, outbox: [change] }),
    outbox: () => Promise.resolve([change]),
    trash: () => Promise.resolve([deleted]),
    retry: (ids) => {
      asked.push(['retry', ids])
      return Promise.resolve([change])
    },
    discard: (ids) => {
      asked.push(['discard', ids])
      return Promise.resolve([change])
    },
    restore: (id, options) => {
      asked.push(['restore', id, options])
      return Promise.resolve()
    },
    ...some,
  }
  const watcher = new Watcher({ drive, clock: systemClock })
  const server = await PageServer.start({ drive, watcher, files: ITS_FILES, log: silentLogger })
  onTestFinished(() => server.close())
  const { origin, hash } = new URL(server.link)
  return { origin, token: hash.slice(1), asked }
}

interface Told {
  readonly status: number | undefined
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

async function ask(
  url: string,
  { method = 'GET', headers = {}, body = '' }: AskOptions = {},
): Promise<Told> {
  const answer = await new Promise<Parameters<Parameters<typeof request>[2] & object>[0]>(
    (resolve, reject) => {
      request(url, { method, headers }, resolve).once('error', reject).end(body)
    },
  )
  return { status: answer.statusCode, headers: answer.headers, body: await text(answer) }
}

interface AskOptions {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
}

function post(origin: string, path: string, body: unknown, headers = {}): Promise<Told> {
  const usual = { origin, 'content-type': 'application/json' }
  return ask(origin + path, {
    method: 'POST',
    headers: { ...usual, ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  })
}

async function enter({ origin, token }: Served): Promise<{ readonly authorization: string }> {
  const { status, body } = await post(origin, '/session', { token })
  expect(status).toBe(200)
  const { session } = JSON.parse(body) as { readonly session: string }
  return { authorization: `Bearer ${session}` }
}

describe('the link of the page', () => {
  it('lets one page in, once', async () => {
    const served = await serve()
    const { origin, token } = served
    expect((await post(origin, '/session', { token: 'x'.repeat(token.length) })).status).toBe(403)
    const session = await enter(served)
    const again = await post(origin, '/session', { token })
    expect(again).toMatchObject({ status: 403 })
    expect(again.body).toContain('it works once')
    expect((await ask(`${origin}/view`, { headers: session })).status).toBe(200)
  })

  it('has a secret that no other has', async () => {
    const [one, other] = [await serve(), await serve()]
    expect(one.token).toMatch(/^[\w-]{43}$/)
    expect(one.token).not.toBe(other.token)
    const session = await enter(one)
    await enter(other)
    expect((await ask(`${other.origin}/view`, { headers: session })).status).toBe(401)
  })
})

describe('the page', () => {
  it('lets no code in but its own, and no other page show or read it', async () => {
    const served = await serve()
    const session = await enter(served)
    for (const path of ['/', '/page.js', '/view', '/nothing']) {
      const { headers } = await ask(served.origin + path, { headers: session })
      const policy = headers['content-security-policy'] ?? ''
      expect(policy).toContain("default-src 'none'; script-src 'self'; style-src 'self';")
      expect(policy).toContain("frame-ancestors 'none'")
      expect(policy).toContain("require-trusted-types-for 'script'")
      expect(policy).not.toContain('unsafe')
      expect(headers).toMatchObject({
        'x-content-type-options': 'nosniff',
        'referrer-policy': 'no-referrer',
        'cache-control': 'no-store',
        'cross-origin-resource-policy': 'same-origin',
      })
      expect(headers['access-control-allow-origin']).toBeUndefined()
      expect(headers['set-cookie']).toBeUndefined()
    }
  })

  it('has no code and no style within its markup', async () => {
    const html = await readFile('src/web/page/index.html', 'utf8')
    expect(html).toContain('<h1>')
    expect(html).not.toMatch(/ style=| on\w+=|<style|<script(?! type="module" src="\/page\.js">)/)
    expect(html).not.toMatch(/(?:src|href)="(?!\/)/)
  })

  it('does what is asked of it, and says so', async () => {
    const served = await serve()
    const session = await enter(served)
    const { origin, asked } = served
    const done = async (path: string, body: unknown): Promise<string> => {
      const told = await post(origin, path, body, session)
      expect(told.status).toBe(200)
      const { said, view } = JSON.parse(told.body) as { said: string; view: PageView }
      expect(view.outbox.rows).toMatchObject([{ id: '7', name: 'a\\x0a.txt' }])
      return said
    }
    expect(await done('/retry', { ids: ['7'] })).toBe('To be tried again: a\\x0a.txt.')
    expect(await done('/discard', { ids: ['7'] })).toBe('Discarded: a\\x0a.txt.')
    expect(await done('/restore', { id: 'b1', replace: false })).toBe('Restored: old.txt.')
    const as = { id: 'b1', name: 'new.txt', replace: false }
    expect(await done('/restore', as)).toBe('Restored: new.txt.')
    expect(asked).toEqual([
      ['retry', ['7']],
      ['discard', ['7']],
      ['restore', 'b1', { replace: false }],
      ['restore', 'b1', { name: 'new.txt', replace: false }],
    ])
  })

  it('tells why a drive refuses', async () => {
    const hint = 'Try again in a moment.'
    const busy = new DriveError('busy', 'a is being sent right now.', { hint })
    const served = await serve({ discard: () => Promise.reject(busy) })
    const told = await post(served.origin, '/discard', { ids: ['7'] }, await enter(served))
    expect(told.status).toBe(409)
    expect(JSON.parse(told.body)).toEqual({
      ...{ code: 'busy', message: 'a is being sent right now.', hint },
    })
  })

  it('takes as many ids at once as an outbox may have', async () => {
    const served = await serve()
    const ids = Array.from({ length: 5_000 }, (_, index) => `${index}`.padStart(26, '0'))
    const told = await post(served.origin, '/retry', { ids }, await enter(served))
    expect(told.status).toBe(200)
    expect(served.asked).toEqual([['retry', ids]])
  })

  it.each([
    ['that is no JSON', '/discard', '{"ids"'],
    ['that names nothing', '/discard', { ids: [] }],
    ['of another form', '/discard', { ids: '7' }],
    ['of another form', '/restore', { id: 'b1' }],
    ['that is too long', '/retry', { ids: ['x'.repeat(17 * 1024 * 1024)] }],
  ])('refuses a body %s: %s', async (_, path, body) => {
    const served = await serve()
    const session = await enter(served)
    const told = await post(served.origin, path, body, session).catch(() => undefined)
    expect(told?.status ?? 400).toBe(400)
    expect(served.asked).toEqual([])
  })

  it('goes on when the drive that it looks at hangs', async () => {
    const hangs = new DriveError('timed-out', 'The drive does not answer.', {
      hint: 'See its log.',
    })
    const served = await serve({ status: () => Promise.reject(hangs) })
    const { body } = await ask(`${served.origin}/view`, { headers: await enter(served) })
    expect(JSON.parse(body)).toMatchObject({
      ...{ presence: 'silent', headline: 'The drive does not answer.', advice: 'See its log.' },
    })
  })
})

describe('a request to the page is refused', () => {
  const ACTIONS = ['/retry', '/discard', '/restore']

  it.each([
    ['meant for another name', { host: 'evil.example' }],
    ['of a page of another place', { origin: 'http://evil.example' }],
    ['of a page of another port', { origin: 'http://127.0.0.1:1' }],
    ['of a page without a place', { origin: 'null' }],
    ['that a page of another place makes', { 'sec-fetch-site': 'cross-site' }],
    ['that a page of the same machine makes', { 'sec-fetch-site': 'same-site' }],
  ])('%s', async (_, headers) => {
    const served = await serve()
    const session = await enter(served)
    const { origin, asked } = served
    const view = await ask(`${origin}/view`, { headers: { ...session, ...headers } })
    expect(view.status).toBe(403)
    expect(view.body).not.toContain('drive')
    for (const path of ACTIONS) {
      const told = await post(origin, path, { ids: ['7'] }, { ...session, ...headers })
      expect(told.status).toBe(403)
    }
    expect(asked).toEqual([])
  })

  it('that acts and does not say where it comes from', async () => {
    const served = await serve()
    const headers = { ...(await enter(served)), 'content-type': 'application/json' }
    const body = JSON.stringify({ ids: ['7'] })
    const told = await ask(`${served.origin}/discard`, { method: 'POST', headers, body })
    expect(told.status).toBe(403)
    expect(served.asked).toEqual([])
  })

  it('without a session, or with another', async () => {
    const served = await serve()
    const { origin, asked, token } = served
    const wrong = ['', 'Bearer', 'Bearer x', `Bearer ${token}`, 'Bearer undefined']
    const askAll = async (): Promise<void> => {
      for (const authorization of wrong) {
        expect((await ask(`${origin}/view`, { headers: { authorization } })).status).toBe(401)
        for (const path of [...ACTIONS, '/nothing']) {
          const told = await post(origin, path, { ids: ['7'] }, { authorization })
          expect(told.status).toBe(401)
        }
      }
    }
    await askAll()
    await enter(served)
    await askAll()
    expect(asked).toEqual([])
  })

  it('that acts by a link', async () => {
    const served = await serve()
    const session = await enter(served)
    for (const path of [...ACTIONS, '/session']) {
      const told = await ask(`${served.origin}${path}?ids=7&id=b1`, { headers: session })
      expect(told.status).toBe(404)
    }
    expect(served.asked).toEqual([])
  })

  it.runIf(process.getuid?.() === 0)('of another user, also with the token', async () => {
    const { origin, token, asked } = await serve()
    const { port } = new URL(origin)
    const body = JSON.stringify({ token })
    const asks = (line: string, rest: string): Promise<{ readonly said: string }> => {
      const head = `${line} HTTP/1.1\\r\\nHost: 127.0.0.1:${port}\\r\\nConnection: close\\r\\n`
      return asOther(`exec 3<>/dev/tcp/127.0.0.1/${port} && printf '${head}${rest}' >&3 && cat <&3`)
    }
    for (const path of ['/', '/page.js', '/view']) {
      const { said } = await asks(`GET ${path}`, '\\r\\n')
      expect(said).toContain('HTTP/1.1 403')
      expect(said).toContain('and for no other')
    }
    const type = `Origin: ${origin}\\r\\nContent-Type: application/json`
    const { said } = await asks(
      'POST /session',
      `${type}\\r\\nContent-Length: ${body.length}\\r\\n\\r\\n${body}`,
    )
    expect(said).toContain('HTTP/1.1 403')
    expect(said).not.toContain('session')
    expect((await post(origin, '/session', { token })).status).toBe(200)
    expect(asked).toEqual([])
  })
})
