import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import axe from 'axe-core'
import type { Browser, BrowserContext, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { findRuntimeDir } from '../../src/config/runtime-dir.ts'
import { DriveRegistry } from '../../src/control/registry.ts'
import { canBrowse, openBrowser } from '../support/chromium.ts'
import { canMount } from '../support/fuse.ts'
import { Bench, type MountedDrive } from '../support/mounted-drive.ts'
import { REFUSALS } from '../support/refusals.ts'
import { StatusPage } from '../support/status-page.ts'

const UPLOAD = { method: 'POST', path: /upload$/ }
const REFUSED = { answer: REFUSALS['a refusal (422)'] }
const DESK = { width: 1100, height: 800 }
const PHONE = { width: 360, height: 740 }
/** Each would run, load or reorder something if it were taken for more than text. */
const HURTFUL = [
  '<img src=x onerror="document.title=1">.html',
  '<script>document.title=1<\u2044script>',
  '"><svg onload=document.title=1>',
  'javascript:alert(1)',
  'evil\u202etxt.exe',
  '{{7*7}} ${7*7} &lt;b&gt;',
]

describe.runIf(canMount() && canBrowse())('the page of a drive in a browser', () => {
  let browser: Browser
  let bench: Bench
  let drive: MountedDrive
  let served: StatusPage
  let context: BrowserContext
  let page: Page
  let allowUploads: () => void
  /** What went wrong in the browser: errors of scripts, and what its policy kept out. */
  let complaints: string[]

  beforeAll(async () => {
    browser = await openBrowser()
  })
  afterAll(async () => {
    await browser.close()
  })
  beforeEach(async () => {
    bench = await Bench.start()
    drive = await bench.mount()
    allowUploads = bench.service.proxy.add({ match: UPLOAD, fault: REFUSED })
    served = await StatusPage.start(bench, [drive.path])
    context = await browser.newContext({ viewport: DESK })
    context.setDefaultTimeout(120_000)
    page = await context.newPage()
    complaints = []
    page.on('pageerror', (error) => complaints.push(String(error)))
    page.on('console', (message) => {
      if (message.type() === 'error') complaints.push(message.text())
    })
  })
  afterEach(async () => {
    await context.close()
    await served.end()
    await bench.close()
  })

  const open = async (): Promise<void> => {
    await page.goto(served.link)
    await page.locator('#main').waitFor()
  }
  const fails = async (name: string, content = 'x'): Promise<void> => {
    writeFileSync(join(bench.dir, 'file'), content)
    await drive.fails(`cp ${bench.dir}/file '${name}'`)
  }
  const namesIn = (list: string): Promise<readonly string[]> =>
    page.locator(`#${list} .name`).allTextContents()
  const button = (name: string) => page.getByRole('button', { name, exact: true })
  const headline = (): Promise<string | null> => page.locator('#headline').textContent()

  it('shows what waits, tries it again, and discards it only when asked twice', async () => {
    await fails('kept.txt')
    await fails('lost.txt')
    await open()
    await expect.poll(() => namesIn('outbox')).toEqual(['kept.txt', 'lost.txt'])
    expect(await headline()).toBe('2 changes wait (2 B), 2 failed and wait for you.')
    await button('Discard lost.txt').click()
    const dialog = page.getByRole('dialog')
    expect(await dialog.textContent()).toContain('nothing brings it back')
    await dialog.getByRole('button', { name: 'Cancel' }).click()
    expect(await namesIn('outbox')).toEqual(['kept.txt', 'lost.txt'])
    await button('Discard lost.txt').click()
    await dialog.getByRole('button', { name: 'Discard' }).click()
    await expect.poll(() => namesIn('outbox')).toEqual(['kept.txt'])
    expect(await page.locator('#said').textContent()).toBe('Discarded: lost.txt.')
    allowUploads()
    await button('Retry kept.txt').click()
    await expect.poll(headline).toBe('Everything is stored.')
    expect(await namesIn('outbox')).toEqual([])
    expect(await bench.service.contents()).toEqual({ 'kept.txt': 'x' })
    expect(complaints).toEqual([])
  })

  it('shows an upload that stands still, with how much of it is sent', async () => {
    allowUploads()
    bench.service.proxy.add({ match: UPLOAD, fault: { silence: true } })
    await drive.sh('(head -c 3000000 /dev/zero > big.bin) 2> /dev/null &')
    await open()
    const bar = page.getByRole('progressbar', { name: 'Upload of big.bin' })
    await expect.poll(() => bar.getAttribute('aria-valuenow')).toMatch(/^\d+$/)
    expect(await page.locator('#transfers .text').textContent()).toContain('of 3.0 MB')
    expect(await headline()).toBe('1 change waits (3.0 MB).')
    expect(await page.locator('#outbox .text').textContent()).toMatch(/^3.0 MB · uploading \d+ %$/)
    await button('Discard big.bin').waitFor()
    expect(await page.locator('#outbox-empty').isVisible()).toBe(false)
    expect(await page.getByRole('img').getAttribute('aria-label')).toMatch(/^Now .* up and .* down/)
  })

  it('restores from the trash, under another name where that is taken', async () => {
    allowUploads()
    await drive.sh('printf one > a.txt; printf two > a.txt; printf old > gone.txt; rm gone.txt')
    await open()
    await button('Restore gone.txt').click()
    await expect.poll(() => namesIn('trash')).toEqual(['a.txt'])
    await button('Restore a.txt').click()
    const field = page.getByLabel('New name')
    await field.waitFor()
    expect(await field.inputValue()).toBe('a (restored).txt')
    await page.keyboard.press('Enter')
    await expect.poll(() => namesIn('trash')).toEqual([])
    expect(await drive.sh('cat gone.txt a*.txt')).toBe('oldonetwo')
    // The browser says so of each answer that is a refusal.
    expect(complaints.filter((each) => !each.includes('409'))).toEqual([])
  })

  it('shows names as they are, whatever they would do', async () => {
    for (const name of HURTFUL) await fails(name)
    const requests: string[] = []
    page.on('request', (request) => requests.push(request.url()))
    await open()
    await expect.poll(() => namesIn('outbox')).toHaveLength(HURTFUL.length)
    const shown = HURTFUL.map((name) => name.replace('\u202e', '\\u{202e}'))
    expect(await namesIn('outbox')).toEqual(shown)
    await page.locator('#outbox .discard').first().click()
    expect(await page.locator('#discard-name').textContent()).toBe(shown[0])
    await page.keyboard.press('Escape')
    expect(await page.locator('#main :is(img, script, svg svg, b)').count()).toBe(0)
    expect(await page.title()).toContain(drive.path)
    expect(requests.filter((url) => !url.startsWith(`${served.origin}/`))).toEqual([])
    expect(requests.join()).not.toContain(served.token)
    expect(complaints).toEqual([])
    // Were a text taken for markup by mistake, the browser would refuse that.
    await expect(page.evaluate('document.body.innerHTML = "<b>"')).rejects.toThrow('TrustedHTML')
  })

  it('is used by keyboard alone, and keeps the focus while things change', async () => {
    await fails('one.txt')
    await fails('two.txt')
    await open()
    const focused = (): Promise<unknown> =>
      page.evaluate(
        'document.activeElement.getAttribute("aria-label") ?? document.activeElement.id',
      )
    await expect.poll(() => namesIn('outbox')).toHaveLength(2)
    const seen: unknown[] = []
    for (let step = 0; step < 5; step += 1) {
      await page.keyboard.press('Tab')
      seen.push(await focused())
    }
    expect(seen).toEqual([
      'retry-all',
      'Retry one.txt',
      'Discard one.txt',
      'Retry two.txt',
      'Discard two.txt',
    ])
    await fails('three.txt')
    await expect.poll(() => namesIn('outbox')).toHaveLength(3)
    expect(await focused()).toBe('Discard two.txt')
    await page.keyboard.press('Enter')
    expect(await focused()).toBe('discard-no')
    await page.keyboard.press('Escape')
    expect(await focused()).toBe('Discard two.txt')
    await page.keyboard.press('Enter')
    await page.keyboard.press('Tab')
    await page.keyboard.press('Enter')
    await expect.poll(() => namesIn('outbox')).toEqual(['one.txt', 'three.txt'])
    expect(await focused()).toBe('outbox-title')
  })

  it('fits a phone, is dark in the dark, and has nothing that a screen reader stumbles at', async () => {
    allowUploads()
    await drive.sh('printf old > gone.txt; rm gone.txt')
    bench.service.proxy.add({ match: UPLOAD, fault: REFUSED })
    await fails(`${'averylongnamewithoutanyspace'.repeat(7)}.txt`)
    await fails('b.txt')
    await open()
    await expect.poll(() => namesIn('outbox')).toHaveLength(2)
    const grounds = new Set<unknown>()
    for (const [viewport, colorScheme] of [
      [DESK, 'light'],
      [PHONE, 'dark'],
      [PHONE, 'light'],
    ] as const) {
      await page.setViewportSize(viewport)
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' })
      expect(await faults(page), `${viewport.width} ${colorScheme}`).toEqual([])
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(viewport.width)
      grounds.add(await page.evaluate('getComputedStyle(document.body).backgroundColor'))
    }
    expect(grounds.size).toBe(2)
    await page.locator('#outbox .discard').first().click()
    expect(await faults(page)).toEqual([])
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(PHONE.width)
  })

  it('says that the drive is gone, goes on when it is back, and says when it has ended itself', async () => {
    allowUploads()
    await open()
    await expect.poll(headline).toBe('Everything is stored.')
    await drive.leave()
    await expect.poll(headline).toBe('The drive is not mounted.')
    await expect
      .poll(() => page.locator('#announcer').textContent())
      .toContain('The drive is not mounted. Mount it again')
    expect(await page.locator('#outbox-empty').isVisible()).toBe(true)
    const later = await beOfAnotherVersion(bench)
    await expect.poll(headline).toContain('is of another version')
    expect(await page.locator('main h2:visible').count()).toBe(0)
    await later()
    await bench.mount()
    await expect.poll(headline).toBe('Everything is stored.')
    await page.reload()
    await expect.poll(headline).toBe('Everything is stored.')
    await served.end()
    await expect.poll(headline).toBe('This page has ended.')
  })

  it('lets nobody in by a link that was used, or by none', async () => {
    await open()
    expect(page.url()).toBe(`${served.origin}/`)
    const other = await context.newPage()
    await other.goto(served.link)
    const told = other.locator('#headline')
    await expect.poll(() => told.textContent()).toBe('This link was used before: it works once.')
    expect(await other.locator('#main').isHidden()).toBe(true)
    await other.goto(served.origin)
    await expect.poll(() => told.textContent()).toContain('needs the link')
    await expect.poll(headline).toBe('Everything is stored.')
  })
})

/** Something answers for the drive of a bench that this program does not understand. */
async function beOfAnotherVersion({ dir, mountpoint }: Bench): Promise<() => Promise<unknown>> {
  const socketPath = join(dir, 'other.sock')
  const server = createServer((_, response) => response.end('{"version":2}')).listen(socketPath)
  await once(server, 'listening')
  const runtimeDir = findRuntimeDir({ XDG_RUNTIME_DIR: dir })
  const registry = new DriveRegistry([runtimeDir])
  await registry.add({ mountpoint, socketPath, pid: process.pid })
  return async () => {
    await registry.leave(mountpoint)
    server.close()
    server.closeAllConnections()
  }
}

/** What axe finds, in short. Its script runs beside the page, which would not let it in. */
async function faults(page: Page): Promise<unknown> {
  await page.evaluate(axe.source)
  return page.evaluate(`axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) =>
    violations.map(({ id, nodes }) => id + ': ' + nodes.map(({ html }) => html).join(' ')))`)
}
