import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { Metrics } from '../../../src/metrics/metrics.ts'
import { EMPTY_STATUS } from './figures.ts'
import { faultsOf } from './metric-rules.ts'

interface Row {
  readonly name: string
  readonly type: string
  readonly unit: string
  readonly labels: string
  readonly help: string
}

const UNITS = ['seconds', 'bytes']

/** One sample of each, so that the text has all labels. */
function filled(): Metrics {
  const metrics = new Metrics()
  metrics.ended('read', 0.02, 'EIO')
  metrics.sent('upload_file', 1)
  metrics.received('download', 1)
  metrics.answered('list', '200', 5)
  metrics.failed('list', 'timed-out')
  return metrics
}

const text = await filled().text({
  ...EMPTY_STATUS,
  outbox: [
    {
      id: 'a',
      name: 'a.txt',
      kind: 'put',
      phase: 'waiting',
      state: 'failed',
      failure: { code: 'no-space', message: '', atMs: 0, tries: 1, waitsForUser: true },
    },
  ],
})

function served(): readonly Row[] {
  return Array.from(text.matchAll(/^# HELP (\S+) (.+)\n# TYPE \S+ (\w+)$/gm), (match) => {
    const [, name = '', help = '', type = ''] = match
    const suffix = type === 'histogram' ? '(?:_bucket|_sum|_count)' : ''
    const samples = text.matchAll(new RegExp(`^${name}${suffix}(?:\\{(.*)\\})? `, 'gm'))
    const labels = Array.from(samples, ([, found = '']) =>
      Array.from(found.matchAll(/(\w+)="/g), ([, label = '']) => label),
    )
    const own = [...new Set(labels.flat())].filter((label) => label !== 'le').sort()
    const unit = UNITS.find((each) => name.replace(/_total$/, '').endsWith(`_${each}`)) ?? '-'
    return { name, type, unit, labels: own.join(', '), help }
  })
}

function written(): readonly Row[] {
  const page = readFileSync('docs/METRICS.md', 'utf8')
  return page
    .split('\n')
    .filter((line) => line.startsWith('| `bagfs_'))
    .map((line) => {
      const [, name = '', type = '', unit = '', labels = '', help = ''] = line
        .split('|')
        .map((cell) => cell.trim().replaceAll('`', ''))
      return { name, type, unit, labels: labels.split(', ').sort().join(', '), help }
    })
}

describe('docs/METRICS.md', () => {
  it('lists exactly what is served, each with its type, unit, labels and meaning', () => {
    expect(written()).toEqual(served())
  })
})

describe('the figures', () => {
  it('go by the rules of Prometheus', () => {
    expect(faultsOf(text)).toEqual([])
    for (const { name, type, unit, help } of served()) {
      expect(name).toMatch(/^bagfs(?:_[a-z]+)+$/)
      expect(help).toMatch(/^[A-Z].*\.$/)
      if (type === 'histogram') expect(unit).not.toBe('-')
    }
  })

  const hasPromtool = spawnSync('promtool', ['--version']).error === undefined
  it.runIf(hasPromtool)('are found good by promtool', () => {
    const { status, stdout, stderr } = spawnSync('promtool', ['check', 'metrics'], {
      input: text,
      encoding: 'utf8',
    })
    expect({ status, said: stdout + stderr }).toEqual({ status: 0, said: '' })
  })
})
