import type { ChangeRow, MeterRow, PageView, TransferRow, TrashRow } from '../view.ts'
import { showSpeed } from './chart.ts'
import { byId, make, setOrHide, setText } from './elements.ts'
import {
  barElement,
  nameElement,
  part,
  showBar,
  showButton,
  showRows,
  type RowKind,
} from './rows.ts'

/** What a person can do to a row. */
export interface Actions {
  readonly retry: (ids: readonly string[]) => void
  readonly discard: (row: ChangeRow) => void
  readonly restore: (row: TrashRow) => void
}

/** Draws the view, again and again. */
export class Show {
  readonly #outbox: RowKind<ChangeRow>
  readonly #trash: RowKind<TrashRow>
  #failed: readonly string[] = []

  constructor(actions: Actions) {
    this.#outbox = changeKind(actions)
    this.#trash = trashKind(actions)
    byId('retry-all', HTMLElement).addEventListener('click', () => {
      actions.retry(this.#failed)
    })
  }

  show(view: PageView): void {
    const { mountpoint, headline, mood, advice = '', notices, outbox, trash } = view
    document.title = `${headline} ${mountpoint} · bagfs`
    setText(byId('mountpoint', HTMLElement), mountpoint)
    showState({ headline, mood, advice })
    showNotices(notices)
    showSpeed(view.speed)
    byId('moving', HTMLElement).hidden = view.presence !== 'here'
    // Of a drive that does not answer it is not known that nothing waits.
    for (const id of ['waiting', 'deleted']) {
      byId(id, HTMLElement).hidden = view.presence === 'silent'
    }
    showList('transfers', view.transfers, TRANSFERS)
    showList('outbox', outbox.rows, this.#outbox)
    showList('trash', trash.rows, this.#trash)
    setOrHide(byId('outbox-note', HTMLElement), outbox.note)
    setOrHide(byId('trash-note', HTMLElement), trash.note)
    showRows(byId('meters', HTMLElement), view.meters, METERS, byId('space-title', HTMLElement))
    byId('space', HTMLElement).hidden = view.meters.length === 0
    this.#failed = outbox.rows.filter(({ canRetry }) => canRetry).map(({ id }) => id)
    byId('retry-all', HTMLElement).hidden = this.#failed.length < 2
    showFacts(view.facts)
    byId('main', HTMLElement).hidden = false
  }
}

/** How things are, in a sentence. A reader of the screen hears of it when the mood changes. */
export function showState(state: Pick<PageView, 'headline' | 'mood' | 'advice'>): void {
  const { headline, mood, advice = '' } = state
  const element = byId('headline', HTMLElement)
  const isNew = element.dataset['mood'] !== mood
  element.dataset['mood'] = mood
  setText(element, headline)
  setOrHide(byId('advice', HTMLElement), advice)
  if (isNew) setText(byId('announcer', HTMLElement), `${headline} ${advice}`)
}

function showNotices(notices: readonly string[]): void {
  const list = byId('notices', HTMLElement)
  list.hidden = notices.length === 0
  const kind: RowKind<string> = {
    keyOf: (notice) => notice,
    make: () => make('li'),
    show: setText,
  }
  showRows(list, notices, kind, byId('headline', HTMLElement))
}

function showList<Row>(id: string, rows: readonly Row[], kind: RowKind<Row>): void {
  showRows(byId(id, HTMLElement), rows, kind, byId(`${id}-title`, HTMLElement))
  byId(`${id}-empty`, HTMLElement).hidden = rows.length > 0
}

const TRANSFERS: RowKind<TransferRow> = {
  keyOf: ({ key }) => key,
  make: () => {
    const row = make('li', 'transfer')
    row.append(nameElement(), make('span', 'text'), barElement('progressbar'))
    return row
  },
  show: (row, { name, direction, percent, text }) => {
    row.dataset['direction'] = direction
    const way = direction === 'up' ? 'Upload' : 'Download'
    setText(part(row, 'name'), name)
    setText(part(row, 'text'), `${way} · ${text}`)
    showBar(part(row, 'bar'), percent, { label: `${way} of ${name}`, text })
  },
}

const METERS: RowKind<MeterRow> = {
  keyOf: ({ label }) => label,
  make: () => {
    const row = make('li', 'meter')
    row.append(make('span', 'name'), make('span', 'text'), barElement('meter'))
    return row
  },
  show: (row, { label, text, share, isFull }) => {
    setText(part(row, 'name'), label)
    setText(part(row, 'text'), text)
    row.classList.toggle('full', isFull)
    showBar(part(row, 'bar'), 100 * share, { label, text })
  },
}

function changeKind(actions: Actions): RowKind<ChangeRow> {
  const shown = new WeakMap<HTMLElement, ChangeRow>()
  return {
    keyOf: ({ id }) => id,
    make: () => {
      const row = make('li', 'item')
      const retry = button('retry', () => {
        actions.retry([row.dataset['key'] ?? ''])
      })
      const discard = button('discard', () => {
        const meant = shown.get(row)
        if (meant !== undefined) actions.discard(meant)
      })
      row.append(nameElement(), make('span', 'text'), buttons(retry, discard))
      return row
    },
    show: (row, change) => {
      shown.set(row, change)
      const { name, what, state, tone, canRetry, canDiscard } = change
      row.dataset['tone'] = tone
      setText(part(row, 'name'), name)
      setText(part(row, 'text'), `${what} · ${state}`)
      showButton(part(row, 'retry'), 'Retry', name, canRetry)
      showButton(part(row, 'discard'), 'Discard', name, canDiscard)
    },
  }
}

function trashKind(actions: Actions): RowKind<TrashRow> {
  const shown = new WeakMap<HTMLElement, TrashRow>()
  return {
    keyOf: ({ id }) => id,
    make: () => {
      const row = make('li', 'item')
      const restore = button('restore', () => {
        const meant = shown.get(row)
        if (meant !== undefined) actions.restore(meant)
      })
      row.append(nameElement(), make('span', 'text'), buttons(restore))
      return row
    },
    show: (row, item) => {
      shown.set(row, item)
      setText(part(row, 'name'), item.name)
      setText(part(row, 'text'), item.text)
      showButton(part(row, 'restore'), 'Restore', item.name, true)
    },
  }
}

function button(className: string, onClick: () => void): HTMLButtonElement {
  const made = make('button', className)
  made.type = 'button'
  made.addEventListener('click', onClick)
  return made
}

function buttons(...all: readonly HTMLButtonElement[]): HTMLElement {
  const group = make('span', 'buttons')
  group.append(...all)
  return group
}

function showFacts(facts: PageView['facts']): void {
  byId('about', HTMLElement).hidden = facts.length === 0
  const list = byId('facts', HTMLElement)
  if (list.children.length !== facts.length) {
    list.replaceChildren(
      ...facts.map(() => {
        const pair = make('div')
        pair.append(make('dt'), make('dd'))
        return pair
      }),
    )
  }
  for (const [index, [label, value]] of facts.entries()) {
    const [term, description] = list.children[index]?.children ?? []
    if (term !== undefined) setText(term, label)
    if (description !== undefined) setText(description, value)
  }
}
