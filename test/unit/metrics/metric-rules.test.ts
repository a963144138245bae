import { describe, expect, it } from 'vitest'
import { faultsOf } from './metric-rules.ts'

function family(name: string, type: string, samples = `${name} 1`, help = 'It tells.'): string {
  return `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${samples}\n`
}

const HISTOGRAM = [
  'a_seconds_bucket{le="0.1",x="a, \\"b\\""} 1',
  'a_seconds_bucket{le="+Inf",x="a, \\"b\\""} 2',
  'a_seconds_sum{x="a, \\"b\\""} 0.5',
  'a_seconds_count{x="a, \\"b\\""} 2',
]

describe('the rules for figures', () => {
  it('take what is right', () => {
    const all = [
      family('bagfs_things', 'gauge', 'bagfs_things NaN'),
      family('bagfs_sent_bytes_total', 'counter', 'bagfs_sent_bytes_total{to="a"} 1e3'),
      family('a_seconds', 'histogram', HISTOGRAM.join('\n')),
    ]
    expect(faultsOf(all.join(''))).toEqual([])
  })

  it.each([
    ['a metric without help', family('a_x', 'gauge', 'a_x 1', ''), 'a_x has no help'],
    ['a metric without a type', '# HELP a_things It.\na_things 1\n', 'a_things has no type'],
    ['a counter without _total', family('a_things', 'counter'), 'is a counter without _total'],
    ['a gauge with _total', family('a_total', 'gauge'), 'ends in _total and is no counter'],
    ['a gauge named as a part', family('a_count', 'gauge'), 'has an ending of histograms'],
    ['a label of histograms', family('a_x', 'gauge', 'a_x{le="1"} 1'), 'has a label of histograms'],
    ['a label of summaries', family('a_x', 'gauge', 'a_x{quantile="1"} 1'), 'of summaries'],
    ['milliseconds', family('a_milliseconds', 'gauge'), 'has milliseconds, no base unit'],
    ['minutes', family('a_minutes_left', 'gauge'), 'has minutes, no base unit'],
    ['megabytes', family('a_megabytes_total', 'counter'), 'has megabytes, no base unit'],
    ['a unit cut short', family('a_took_ms', 'gauge'), 'has ms, a unit cut short'],
    ['the type in a name', family('a_gauge_x', 'gauge'), 'has its type in its name'],
    ['a colon', family('a:things', 'gauge'), 'has a colon'],
    ['camelCase', family('a_bigThings', 'gauge'), 'has camelCase'],
    ['camelCase of a label', family('a_x', 'gauge', 'a_x{bigLabel=""} 1'), 'has camelCase'],
    [
      'a metric told twice',
      family('a_x', 'gauge') + family('b_y', 'gauge') + family('a_x', 'gauge', 'a_x{l=""} 1'),
      'a_x is told twice',
    ],
    ['a sample twice', family('a_x', 'gauge', 'a_x 1\na_x 2'), 'a_x is there twice'],
    ['a sample of another', family('a_x', 'gauge', 'a_y 1'), 'a_y is of no metric'],
    ['what is no number', family('a_x', 'gauge', 'a_x one'), 'This is no sample: a_x one'],
    ['a quote in a label', family('a_x', 'gauge', 'a_x{l="a"b"} 1'), 'This is no sample'],
    ['an end that is missing', family('a_x', 'gauge').trimEnd(), 'The last line has no end.'],
    [
      'a histogram without a sum',
      family('a_seconds', 'histogram', HISTOGRAM.filter((_, at) => at !== 2).join('\n')),
      'has no sum',
    ],
    [
      'a histogram without its last bucket',
      family('a_seconds', 'histogram', HISTOGRAM.filter((_, at) => at !== 1).join('\n')),
      'has odd buckets',
    ],
  ])('find %s', (_, text, fault) => {
    const faults = faultsOf(text)
    expect(faults.join('\n')).toContain(fault)
    expect(faults.length).toBeLessThanOrEqual(2)
  })
})
