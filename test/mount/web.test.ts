import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { canActAsOther, canMount } from '../support/fuse.ts'
import { Bench, type MountedDrive } from '../support/mounted-drive.ts'
import { asOther } from '../support/other-user.ts'
import { REFUSALS } from '../support/refusals.ts'
import { StatusPage } from '../support/status-page.ts'
import type { PageDone, PageView } from '../../src/web/view.ts'

const UPLOAD = { method: 'POST', path: /upload$/ }
const REFUSED = { answer: REFUSALS['a refusal (422)'] }

/** What a page does with its link, without a browser. */
class Visitor {
  readonly #page: StatusPage
  #authorization = ''

  constructor(page: StatusPage) {
    this.#page = page
  }

  async enter(): Promise<void> {
    const { session } = (await (
      await this.post('/session', { token: this.#page.token })
    ).json()) as {
      readonly session: string
    }
    this.#authorization = `Bearer ${session}`
  }

  async view(): Promise<PageView> {
    const { origin } = this.#page
    const headers = { authorization: this.#authorization }
    return (await (await fetch(`${origin}/view`, { headers })).json()) as PageView
  }

  post(path: string, body: unknown): Promise<Response> {
    const { origin } = this.#page
    const type = { origin, 'content-type': 'application/json' }
    const headers = { ...type, authorization: this.#authorization }
    return fetch(origin + path, { method: 'POST', headers, body: JSON.stringify(body) })
  }

  async done(path: string, body: unknown): Promise<PageDone> {
    const answer = await this.post(path, body)
    if (!answer.ok) throw new Error(await answer.text())
    return (await answer.json()) as PageDone
  }
}

describe.runIf(canMount())('the page of a drive', () => {
  let bench: Bench
  let page: StatusPage | undefined
  beforeEach(async () => {
    bench = await Bench.start()
    page = undefined
  })
  afterEach(async () => {
    await page?.end()
    await bench.close()
  })

  const open = async (): Promise<Visitor> => {
    page = await StatusPage.start(bench, [bench.mountpoint])
    const visitor = new Visitor(page)
    await visitor.enter()
    return visitor
  }
  const copyFails = async (drive: MountedDrive, name: string, content: string): Promise<void> => {
    writeFileSync(join(bench.dir, name), content)
    await drive.fails(`cp ${bench.dir}/${name} ${name}`)
  }

  it('shows what is there, and does what it says', async () => {
    const drive = await bench.mount()
    await drive.sh('printf one > a.txt; printf two > a.txt; printf old > gone.txt; rm gone.txt')
    const visitor = await open()
    const before = await visitor.view()
    expect(before).toMatchObject({
      ...{ mountpoint: drive.path, presence: 'here', headline: 'Everything is stored.' },
    })
    expect(before.meters.map(({ label }) => label)).toEqual(['Account', 'Cache'])
    expect(before.trash.rows.map(({ name }) => name)).toEqual(['gone.txt', 'a.txt'])
    const [gone, replaced] = before.trash.rows.map(({ id }) => id)

    const clear = bench.service.proxy.add({ match: UPLOAD, fault: REFUSED })
    await copyFails(drive, 'kept.txt', 'kept')
    await copyFails(drive, 'lost.txt', 'lost')
    clear()
    await expect.poll(async () => (await visitor.view()).mood).toBe('bad')
    const { rows } = (await visitor.view()).outbox
    expect(rows.map(({ name, tone }) => [name, tone])).toEqual([
      ['kept.txt', 'stuck'],
      ['lost.txt', 'stuck'],
    ])
    const [kept, lost] = rows.map(({ id }) => id)
    expect(await visitor.done('/discard', { ids: [lost] })).toMatchObject({
      said: 'Discarded: lost.txt.',
      view: { outbox: { rows: [{ name: 'kept.txt' }] } },
    })
    expect((await visitor.done('/retry', { ids: [kept] })).said).toBe(
      'To be tried again: kept.txt.',
    )
    await visitor.done('/restore', { id: gone, replace: false })
    expect((await visitor.post('/restore', { id: replaced, replace: false })).status).toBe(409)
    await visitor.done('/restore', { id: replaced, name: 'first.txt', replace: false })
    const all = { 'a.txt': 'two', 'first.txt': 'one', 'gone.txt': 'old', 'kept.txt': 'kept' }
    await expect.poll(() => bench.service.contents()).toEqual(all)
    expect(await drive.sh('cat *.txt')).toBe('twooneoldkept')
    await expect.poll(visitor.view.bind(visitor)).toMatchObject({
      ...{ mood: 'good', outbox: { rows: [] }, trash: { rows: [] } },
    })
    const { speed } = await visitor.view()
    expect(Math.max(...(speed?.points ?? []).map(([, up]) => up))).toBeGreaterThan(0)
  })

  it('says that the drive is gone, works on what it left, and goes on with the next one', async () => {
    const drive = await bench.mount()
    await drive.sh('printf old > gone.txt; rm gone.txt')
    const clear = bench.service.proxy.add({ match: UPLOAD, fault: REFUSED })
    await copyFails(drive, 'a.txt', 'a')
    await copyFails(drive, 'b.txt', 'b')
    const visitor = await open()
    await drive.kill()
    await expect.poll(visitor.view.bind(visitor)).toMatchObject({
      ...{ presence: 'gone', headline: 'The drive is not mounted.', meters: [] },
    })
    const { rows } = (await visitor.view()).outbox
    expect(rows.map(({ name }) => name)).toEqual(['a.txt', 'b.txt'])
    const { view } = await visitor.done('/discard', { ids: [rows[0]?.id] })
    expect(view).toMatchObject({ presence: 'gone', outbox: { rows: [{ name: 'b.txt' }] } })
    const [deleted] = view.trash.rows
    const { said } = await visitor.done('/restore', { id: deleted?.id, replace: false })
    expect(said).toBe('To be restored by the next mount: gone.txt.')
    clear()
    await bench.mount()
    await expect.poll(visitor.view.bind(visitor)).toMatchObject({
      ...{ presence: 'here', outbox: { rows: [{ name: 'b.txt' }] }, trash: { rows: [] } },
    })
    expect(await bench.service.contentOf('gone.txt')).toEqual(Buffer.from('old'))
  })

  it.runIf(canActAsOther())('is for no other user of the machine, also with the link', async () => {
    await bench.mount()
    page = await StatusPage.start(bench)
    const { port } = new URL(page.origin)
    const body = JSON.stringify({ token: page.token })
    const curl = `curl -sS --max-time 60 http://127.0.0.1:${port}`
    const said = [
      await asOther(`${curl}/`),
      await asOther(`${curl}/view`),
      await asOther(
        `${curl}/session -H 'Origin: ${page.origin}' -H 'Content-Type: application/json' -d '${body}'`,
      ),
    ].map((outcome) => outcome.said)
    for (const each of said) expect(each).toContain('and for no other')
    const visitor = new Visitor(page)
    await visitor.enter()
    expect(await visitor.view()).toMatchObject({ presence: 'here' })
  })

  it('is opened by a desktop, and by nothing else, and ends by Ctrl-C', async () => {
    await bench.mount()
    const bin = join(bench.dir, 'bin')
    const opened = join(bench.dir, 'opened')
    mkdirSync(bin)
    writeFileSync(
      join(bin, 'xdg-open'),
      `#!/bin/sh\necho "$1" > ${opened}.new\nmv ${opened}.new ${opened}\n`,
    )
    chmodSync(join(bin, 'xdg-open'), 0o755)
    const PATH = `${bin}:${process.env['PATH'] ?? ''}`
    page = await StatusPage.start(bench, [], { PATH, DISPLAY: '', WAYLAND_DISPLAY: '' })
    expect(page.link).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/#[\w-]{43}$/)
    expect(await page.end()).toBe(0)
    expect(page.stderr).toContain('works once')
    expect(existsSync(opened)).toBe(false)
    page = await StatusPage.start(bench, [], { PATH, DISPLAY: '', WAYLAND_DISPLAY: 'wayland-0' })
    await expect.poll(() => existsSync(opened)).toBe(true)
    expect(readFileSync(opened, 'utf8')).toBe(`${page.link}\n`)
    expect(await page.end()).toBe(0)
    await expect(fetch(page.origin)).rejects.toThrow()
  })

  it('is not served where no drive is mounted, and goes with no --json', async () => {
    expect(await bench.bagfs(['status', '--web'])).toMatchObject({ code: 2, stdout: '' })
    expect(await bench.bagfs(['status', '--web', bench.mountpoint])).toMatchObject({ code: 2 })
    const both = await bench.bagfs(['status', '--web', '--json'])
    expect(both).toMatchObject({ code: 2, stdout: '' })
    expect(both.stderr).toContain("'--web' cannot be used with option '--json'")
  })
})
