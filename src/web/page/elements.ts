/** An element that index.html has; throws where it has none. */
export function byId<Kind extends Element>(id: string, kind: new () => Kind): Kind {
  const element = document.getElementById(id) as Element | null
  if (element instanceof kind) return element
  throw new Error(`The page has no ${id}.`)
}

export function make<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  className = '',
): HTMLElementTagNameMap[Tag] {
  const element = document.createElement(tag)
  if (className !== '') element.className = className
  return element
}

/** Leaves alone what is the same: a selection in it stays. */
export function setText(element: Element, text: string): void {
  if (element.textContent !== text) element.textContent = text
}

/** Hides an element that has nothing to tell. */
export function setOrHide(element: HTMLElement, text: string): void {
  setText(element, text)
  element.hidden = text === ''
}

export function setAttribute(element: Element, name: string, value: string): void {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value)
}
