import type { ChangeRow, PageDone, PageView, TrashRow } from '../view.ts'
import { askForWayBack, askToDiscard } from './dialogs.ts'
import { byId, setText } from './elements.ts'
import { Server, type ServerAnswer } from './server.ts'
import { Show, showState } from './show.ts'

const EVERY_MS = 1_000
/** For a page that does not show, or whose command does not answer. */
const SELDOM_MS = 5_000
const SAID_MS = 8_000

const ENDED = {
  headline: 'This page has ended.',
  advice: 'Its command does not run any more. For a new page: bagfs status --web',
  mood: 'bad',
} as const

/** Follows a drive, and does what the person asks. */
class Page {
  readonly #server = new Server()
  readonly #show = new Show({
    retry: (ids) => {
      this.#start(this.#do('/retry', { ids }))
    },
    discard: (row) => {
      this.#start(this.#discard(row))
    },
    restore: (row) => {
      this.#start(this.#restore(row))
    },
  })
  #isEnded = false
  #wake = (): void => undefined
  #sayTimer = 0

  async run(): Promise<void> {
    if (!(await this.#enter())) return
    document.addEventListener('visibilitychange', () => {
      this.#wake()
    })
    for (;;) {
      await this.#look()
      if (this.#isEnded) return
      await this.#pause()
    }
  }

  /** With the token of the link, which leaves the address bar and the history at once. */
  async #enter(): Promise<boolean> {
    const token = location.hash.slice(1)
    history.replaceState(null, '', '/')
    const opened = token === '' ? undefined : await this.#server.open(token)
    if (opened?.is === 'unreachable') showState(ENDED)
    if (opened?.is === 'unreachable') return false
    // The link of a page that is open already does no harm.
    if (opened?.is === 'done' || this.#server.hasSession) return true
    this.#end(
      opened?.refusal.message ?? 'This page needs the link that bagfs status --web printed.',
    )
    return false
  }

  async #look(): Promise<void> {
    const answer = await this.#server.get<PageView>('/view')
    if (answer.is === 'done') this.#show.show(answer.value)
    else this.#failed(answer)
  }

  #failed(answer: Exclude<ServerAnswer<unknown>, { is: 'done' }>): void {
    if (answer.is === 'unreachable') {
      byId('main', HTMLElement).hidden = true
      showState(ENDED)
    } else if (answer.refusal.code === 'unauthorized') {
      this.#end(answer.refusal.message)
    } else {
      this.#complain(answer.refusal.message, answer.refusal.hint)
    }
  }

  #end(headline: string): void {
    this.#isEnded = true
    byId('main', HTMLElement).hidden = true
    showState({ headline, mood: 'bad', advice: 'For a new link: bagfs status --web' })
  }

  #pause(): Promise<void> {
    const isFar = document.hidden || byId('main', HTMLElement).hidden
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, isFar ? SELDOM_MS : EVERY_MS)
      this.#wake = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  }

  /** A bug in an action shows as one in the console of the browser. */
  #start(action: Promise<void>): void {
    action.catch(reportError)
  }

  async #discard(row: ChangeRow): Promise<void> {
    if (await askToDiscard(row)) await this.#do('/discard', { ids: [row.id] })
  }

  async #restore({ id, name, isFolder }: TrashRow): Promise<void> {
    const answer = await this.#server.post<PageDone>('/restore', { id, replace: false })
    if (answer.is !== 'refused' || answer.refusal.code !== 'exists') {
      this.#done(answer)
      return
    }
    const way = await askForWayBack(name, isFolder)
    if (way === undefined) return
    const as = way === 'replace' ? { replace: true } : { name: way.name, replace: false }
    await this.#do('/restore', { id, ...as })
  }

  async #do(path: string, body: unknown): Promise<void> {
    this.#done(await this.#server.post<PageDone>(path, body))
  }

  #done(answer: ServerAnswer<PageDone>): void {
    if (answer.is !== 'done') {
      this.#failed(answer)
      return
    }
    this.#show.show(answer.value.view)
    setText(byId('trouble', HTMLElement), '')
    this.#say('said', answer.value.said)
  }

  #complain(message: string, hint = ''): void {
    setText(byId('said', HTMLElement), '')
    this.#say('trouble', `${message} ${hint}`.trim())
  }

  #say(id: 'said' | 'trouble', text: string): void {
    const place = byId(id, HTMLElement)
    setText(place, text)
    clearTimeout(this.#sayTimer)
    this.#sayTimer = setTimeout(() => {
      setText(place, '')
    }, SAID_MS)
  }
}

new Page().run().catch(reportError)
