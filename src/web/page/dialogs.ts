import type { ChangeRow } from '../view.ts'
import { byId, setText } from './elements.ts'

/** How a person wants something back whose name is taken. */
export type WayBack = { readonly name: string } | 'replace' | undefined

const LOST: Readonly<Record<ChangeRow['kind'], string>> = {
  put: 'The service does not have it, and nothing brings it back. To keep a copy, cancel and use bagfs outbox save.',
  delete: 'It is not deleted then, and shows again.',
}

/** True when the person says so; the button that has the focus at first does nothing. */
export function askToDiscard({ name, kind }: ChangeRow): Promise<boolean> {
  setText(byId('discard-name', HTMLElement), name)
  setText(byId('discard-text', HTMLElement), LOST[kind])
  return ask<boolean>('discard', 'discard-no', false, (end) => [
    [
      byId('discard-no', HTMLElement),
      'click',
      () => {
        end(false)
      },
    ],
    [
      byId('discard-yes', HTMLElement),
      'click',
      () => {
        end(true)
      },
    ],
  ])
}

export function askForWayBack(name: string, isFolder: boolean): Promise<WayBack> {
  const field = byId('taken-name', HTMLInputElement)
  const replace = byId('taken-replace', HTMLElement)
  field.value = otherName(name, isFolder)
  // The drive replaces no folder.
  replace.hidden = isFolder
  return ask<WayBack>('taken', 'taken-name', undefined, (end) => [
    [
      byId('taken-no', HTMLElement),
      'click',
      () => {
        end(undefined)
      },
    ],
    [
      replace,
      'click',
      () => {
        end('replace')
      },
    ],
    [
      byId('taken-form', HTMLElement),
      'submit',
      (event) => {
        event.preventDefault()
        end({ name: field.value })
      },
    ],
  ])
}

type Listening = readonly [HTMLElement, string, (event: Event) => void]

/** Shows a dialog until one of the listeners ends it; Escape ends it with `usual`. */
function ask<Choice>(
  id: string,
  first: string,
  usual: Choice,
  listenings: (end: (answer: Choice) => void) => readonly Listening[],
): Promise<Choice> {
  const dialog = byId(id, HTMLDialogElement)
  return new Promise((resolve) => {
    const over = new AbortController()
    const end = (answer: Choice): void => {
      over.abort()
      dialog.close()
      resolve(answer)
    }
    const all = [
      ...listenings(end),
      [
        dialog,
        'cancel',
        () => {
          end(usual)
        },
      ] as const,
    ]
    for (const [element, type, listener] of all) {
      element.addEventListener(type, listener, { signal: over.signal })
    }
    dialog.showModal()
    byId(first, HTMLElement).focus()
  })
}

/** `report (restored).odt` */
function otherName(name: string, isFolder: boolean): string {
  const dot = isFolder ? -1 : name.lastIndexOf('.')
  const at = dot > 0 ? dot : name.length
  return `${name.slice(0, at)} (restored)${name.slice(at)}`
}
