/** A figure that is measured several times for each subject. */
export interface Row {
  readonly what: string
  readonly unit: string
  readonly better: 'lower' | 'higher'
  /** Name of the subject -> its figures, one per run. */
  readonly figures: Map<string, number[]>
}

/** Figures of a section, in the order in which they were first noted. */
export class Table {
  readonly #rows = new Map<string, Row>()
  readonly #remarks: string[] = []

  note(row: Omit<Row, 'figures'>, subject: string, figure: number): void {
    const known = this.#rows.get(row.what) ?? { ...row, figures: new Map<string, number[]>() }
    this.#rows.set(row.what, known)
    const figures = known.figures.get(subject) ?? []
    known.figures.set(subject, [...figures, figure])
  }

  /** A sentence to stand below the table. */
  remark(text: string): void {
    this.#remarks.push(`- ${text}`)
  }

  /** A Markdown list. */
  get remarks(): readonly string[] {
    return this.#remarks
  }

  /** A Markdown table: medians, and how many times better the first subject is than each other one. */
  format(subjects: readonly string[]): string {
    const [own = '', ...others] = subjects
    const heads = ['what', 'unit', ...subjects, ...others.map((other) => `${own} : ${other}`)]
    const lines = [...this.#rows.values()].map((row) => [
      row.what,
      row.unit,
      ...subjects.map((subject) => format(median(row.figures.get(subject)))),
      ...others.map((other) => formatRatio(row, own, other)),
    ])
    const rule = heads.map((_, column) => (column < 2 ? '---' : '---:'))
    return [heads, rule, ...lines].map((cells) => `| ${cells.join(' | ')} |`).join('\n')
  }
}

/** Above 1 the subject's own figure is the better one. */
function formatRatio(row: Row, own: string, other: string): string {
  const mine = median(row.figures.get(own))
  const theirs = median(row.figures.get(other))
  if (mine === undefined || theirs === undefined || mine === 0 || theirs === 0) return '-'
  const ratio = row.better === 'higher' ? mine / theirs : theirs / mine
  return `${ratio.toFixed(2)} x`
}

function median(figures: readonly number[] | undefined): number | undefined {
  if (figures === undefined || figures.length === 0) return undefined
  const sorted = [...figures].sort((a, b) => a - b)
  const middle = Math.floor(sorted.length / 2)
  const high = sorted[middle] ?? 0
  return sorted.length % 2 === 1 ? high : ((sorted[middle - 1] ?? 0) + high) / 2
}

function format(figure: number | undefined): string {
  if (figure === undefined) return '-'
  if (figure >= 100) return Math.round(figure).toLocaleString('en')
  return figure >= 10 ? figure.toFixed(1) : figure.toFixed(2)
}
