import { make, setText } from './elements.ts'

/** How one row of a list is made, and shows what it has to show. */
export interface RowKind<Row> {
  readonly keyOf: (row: Row) => string
  readonly make: () => HTMLLIElement
  readonly show: (element: HTMLLIElement, row: Row) => void
}

/**
 * Makes a list show these rows, in their order. What stays keeps its element, and so the focus. When a row goes that
 * had the focus, `heading` gets it.
 */
export function showRows<Row>(
  list: HTMLElement,
  rows: readonly Row[],
  kind: RowKind<Row>,
  heading: HTMLElement,
): void {
  const old = new Map<string, HTMLLIElement>()
  for (const child of list.children) {
    if (child instanceof HTMLLIElement) old.set(child.dataset['key'] ?? '', child)
  }
  const wanted = rows.map((row) => {
    const key = kind.keyOf(row)
    const element = old.get(key) ?? kind.make()
    old.delete(key)
    element.dataset['key'] = key
    kind.show(element, row)
    return element
  })
  for (const gone of old.values()) {
    const hadFocus = gone.contains(document.activeElement)
    gone.remove()
    if (hadFocus) heading.focus()
  }
  for (const [index, element] of wanted.entries()) {
    // Moving an element would take the focus away, so only those move that have to.
    if (list.children[index] !== element) list.insertBefore(element, list.children[index] ?? null)
  }
}

/** The part of a row that has a class. */
export function part(row: HTMLElement, className: string): HTMLElement {
  const found = row.querySelector(`.${className}`)
  if (found instanceof HTMLElement) return found
  throw new Error(`A row has no ${className}.`)
}

/** A name, which may be written from right to left, and stays by itself. */
export function nameElement(): HTMLElement {
  return make('bdi', 'name')
}

/** A bar with the part that is filled. */
export function barElement(role: 'meter' | 'progressbar'): HTMLElement {
  const bar = make('div', 'bar')
  bar.setAttribute('role', role)
  bar.setAttribute('aria-valuemin', '0')
  bar.setAttribute('aria-valuemax', '100')
  bar.append(make('span', 'fill'))
  return bar
}

/** Undefined for progress of which the end is not known. */
export function showBar(
  bar: HTMLElement,
  percent: number | undefined,
  words: { readonly label: string; readonly text: string },
): void {
  bar.setAttribute('aria-label', words.label)
  bar.setAttribute('aria-valuetext', words.text)
  bar.classList.toggle('endless', percent === undefined)
  if (percent === undefined) bar.removeAttribute('aria-valuenow')
  else bar.setAttribute('aria-valuenow', String(Math.round(percent)))
  part(bar, 'fill').style.inlineSize = percent === undefined ? '' : `${percent}%`
}

/** A button that says to a screen reader which row it is about. */
export function showButton(
  button: HTMLElement,
  label: string,
  name: string,
  isShown: boolean,
): void {
  setText(button, label)
  button.setAttribute('aria-label', `${label} ${name}`)
  button.hidden = !isShown
}
