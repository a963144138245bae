import { afterEach, describe, expect, it } from 'vitest'
import { canMount } from '../support/fuse.ts'
import { Bench } from '../support/mounted-drive.ts'
import { samplesOf } from '../unit/metrics/figures.ts'
import { faultsOf } from '../unit/metrics/metric-rules.ts'

let bench: Bench
afterEach(async () => {
  await bench.close()
})

describe.runIf(canMount())('the figures of a drive', () => {
  it('tell what programs did, over the socket and at the address', async () => {
    bench = await Bench.start()
    await bench.service.upload('a.txt', 'from elsewhere\n')
    const drive = await bench.mount('--metrics', '127.0.0.1:0')
    const [, url = ''] = /The figures of this drive are served\. url=(\S+)/.exec(drive.log) ?? []
    const text = async (): Promise<string> => (await fetch(url)).text()
    const value = async (sample: string): Promise<number | undefined> =>
      samplesOf(await text()).get(sample)

    expect(await drive.sh('cat a.txt; echo new > b.txt')).toBe('from elsewhere\n')
    await drive.fails('cat missing.txt')
    for (const operation of ['open', 'read', 'write', 'flush', 'getattr']) {
      const count = `bagfs_operation_duration_seconds_count{operation="${operation}"}`
      expect(await value(count), operation).toBeGreaterThan(0)
    }
    expect(await text()).toMatch(/^bagfs_operation_errors_total\{.*error="ENOENT"\} [1-9]/m)
    const requests = (endpoint: string): string =>
      `bagfs_service_requests_total{endpoint="${endpoint}",status="200"}`
    expect(await value(requests('upload_file'))).toBe(1)
    expect(await value(requests('list'))).toBeGreaterThan(0)
    // A byte of what was stored may be asked for, as a proof.
    const received = await value('bagfs_service_received_bytes_total{endpoint="download"}')
    expect(received).toBeGreaterThanOrEqual('from elsewhere\n'.length)
    expect(await value('bagfs_listing_bags')).toBeGreaterThan(0)
    expect(await value('bagfs_outbox_changes{state="failed"}')).toBe(0)

    bench.service.proxy.add({
      match: { path: /upload/ },
      fault: { answer: { status: 507, body: '{}' } },
    })
    await drive.fails('cp a.txt c.txt')
    expect(await value('bagfs_outbox_bytes')).toBe('from elsewhere\n'.length)
    expect(await text()).toMatch(/^bagfs_outbox_changes\{state="(?:failed|stuck)"\} 1$/m)
    expect(await text()).toMatch(/^bagfs_outbox_failures\{code=".*"\} 1$/m)

    const told = await bench.bagfs(['metrics', drive.path])
    expect(told).toMatchObject({ code: 0, stderr: '' })
    // Of all that is counted there are samples by now.
    expect(faultsOf(await text())).toEqual([])
    expect(faultsOf(`${told.stdout}\n`)).toEqual([])
    const names = (figures: string): readonly string[] => figures.match(/^# TYPE .*$/gm) ?? []
    expect(names(told.stdout)).toEqual(names(await text()))
    expect(await bench.bagfs(['metrics'])).toMatchObject({ code: 0 })
  })

  it('are served nowhere unless asked for, and not where another program listens', async () => {
    bench = await Bench.start()
    const drive = await bench.mount()
    expect(drive.log).not.toContain('figures')
    const { port } = new URL(bench.service.local.url)
    await drive.leave()
    const second = await bench.mountBy('--metrics', `127.0.0.1:${port}`)
    expect(second.code).toBe(2)
    expect(second.stderr).toContain('another program listens there')
    expect(drive.isMounted).toBe(false)
  })
})
