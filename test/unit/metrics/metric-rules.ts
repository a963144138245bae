interface MetricFamily {
  readonly name: string
  readonly type: string | undefined
  readonly help: string | undefined
  readonly samples: readonly MetricSample[]
}

interface MetricSample {
  readonly name: string
  readonly labels: ReadonlyMap<string, string>
  readonly value: number
}

type MetricRule = (family: MetricFamily) => readonly (string | false | undefined)[]

/** Times and amounts that are no base units: seconds and bytes are. */
const OTHER_UNIT =
  /^(?:(?:nano|micro|milli|kilo|kibi|mega|mebi|giga|gibi|tera|tebi)(?:seconds|bytes|bits)|minutes|hours|days|weeks|bits)$/
const SHORT_UNIT = /^(?:[munk]?s|sec|[kmgtp]?b|[mhd])$/
const CAMEL_CASE = /[a-z][A-Z]/
const TYPES = ['counter', 'gauge', 'histogram', 'summary']
/** What a histogram adds to its name. */
const PARTS = /_(?:bucket|count|sum)$/

/** What `promtool check metrics` has to say of names and texts, as far as it can come up here. */
const RULES: readonly MetricRule[] = [
  ({ help, type }) => [
    (help ?? '') === '' && 'has no help',
    !TYPES.includes(type ?? '') && 'has no type',
  ],
  ({ name, type }) => {
    const isTotal = name.endsWith('_total')
    return [
      type === 'counter' && !isTotal && 'is a counter without _total',
      type !== 'counter' && isTotal && 'ends in _total and is no counter',
    ]
  },
  ({ name, type, samples }) => {
    const labels = samples.flatMap((sample) => [...sample.labels.keys()])
    return [
      PARTS.test(name) && type !== 'histogram' && 'has an ending of histograms',
      labels.includes('le') && type !== 'histogram' && 'has a label of histograms',
      labels.includes('quantile') && type !== 'summary' && 'has a label of summaries',
    ]
  },
  ({ name, samples }) => {
    const words = name.split('_')
    const names = [name, ...samples.flatMap(({ labels }) => [...labels.keys()])]
    return [
      ...words.map((word) => OTHER_UNIT.test(word) && `has ${word}, no base unit`),
      ...words.map((word) => SHORT_UNIT.test(word) && `has ${word}, a unit cut short`),
      ...words.map((word) => TYPES.includes(word) && `has its type in its name`),
      name.includes(':') && 'has a colon',
      names.some((each) => CAMEL_CASE.test(each)) && 'has camelCase',
    ]
  },
  histogramRule,
]

/** The buckets of each histogram grow to its count, and each has a sum. */
function histogramRule({ name, type, samples }: MetricFamily): readonly (string | false)[] {
  if (type !== 'histogram') return []
  const of = (part: string): readonly MetricSample[] =>
    samples.filter((sample) => sample.name === `${name}_${part}`)
  return of('count').flatMap(({ labels, value: count }) => {
    const isAlike = (other: MetricSample): boolean =>
      [...labels].every(([key, value]) => other.labels.get(key) === value)
    const buckets = of('bucket').filter(isAlike)
    const grow = buckets.every(({ value }, at) => value >= (buckets[at - 1]?.value ?? 0))
    const last = buckets.at(-1)
    return [
      (!grow || last?.labels.get('le') !== '+Inf' || last.value !== count) && 'has odd buckets',
      !of('sum').some(isAlike) && 'has no sum',
    ]
  })
}

/** What is wrong with a text of figures, a line each; none where Prometheus takes it without a word. */
export function faultsOf(text: string): readonly string[] {
  const { families, faults } = new MetricText(text)
  const ofFamilies = families.flatMap((family) =>
    RULES.flatMap((rule) => rule(family))
      .filter((fault) => typeof fault === 'string')
      .map((fault) => `${family.name} ${fault}`),
  )
  return [...faults, ...ofFamilies]
}

const COMMENT = /^# (HELP|TYPE) ([a-zA-Z_:][\w:]*) ?(.*)$/
const SAMPLE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/
const LABEL = /([a-zA-Z_]\w*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)/y
/** In any case: so Go reads numbers. */
const NO_FINITE = /^(?:nan|[+-]inf)$/i

/** What a text tells of each metric, in its order. */
class MetricText {
  readonly families: (MetricFamily & { samples: MetricSample[] })[] = []
  readonly faults: string[] = []
  readonly #seen = new Set<string>()

  constructor(text: string) {
    if (!text.endsWith('\n')) this.faults.push('The last line has no end.')
    for (const line of text.split('\n').filter((each) => each !== '')) {
      const [, word, name = '', rest = ''] = COMMENT.exec(line) ?? []
      if (word === undefined) this.#addSample(line)
      else this.#describe(name, word === 'HELP' ? { help: rest } : { type: rest })
    }
  }

  #describe(name: string, some: Pick<Partial<MetricFamily>, 'help' | 'type'>): void {
    const last = this.families.at(-1)
    if (last?.name === name) {
      this.families.splice(-1, 1, { ...last, ...some })
      return
    }
    if (this.families.some((other) => other.name === name))
      this.faults.push(`${name} is told twice`)
    this.families.push({ name, help: undefined, type: undefined, samples: [], ...some })
  }

  #addSample(line: string): void {
    const sample = parseSample(line)
    const family = this.families.at(-1)
    const key = line.slice(0, line.lastIndexOf(' '))
    if (sample === undefined) this.faults.push(`This is no sample: ${line}`)
    else if (family === undefined || !isOf(sample, family))
      this.faults.push(`${key} is of no metric`)
    else if (this.#seen.has(key)) this.faults.push(`${key} is there twice`)
    else family.samples.push(sample)
    this.#seen.add(key)
  }
}

function isOf({ name }: MetricSample, family: MetricFamily): boolean {
  const base = family.type === 'histogram' ? name.replace(PARTS, '') : name
  return base === family.name
}

function parseSample(line: string): MetricSample | undefined {
  const [, name, labelText = '', number = ''] = SAMPLE.exec(line) ?? []
  const labels = new Map<string, string>()
  LABEL.lastIndex = 0
  let end = 0
  for (let found = LABEL.exec(labelText); found !== null; found = LABEL.exec(labelText)) {
    labels.set(found[1] ?? '', found[2] ?? '')
    end = LABEL.lastIndex
  }
  const isNumber = NO_FINITE.test(number) || Number.isFinite(Number(number))
  if (name === undefined || end !== labelText.length || !isNumber) return undefined
  return { name, labels, value: Number(number.replace(/inf/i, 'Infinity')) }
}
