import { setMaxListeners } from 'node:events'

/** Its signal ends all that is under way when something is closed: Node warns of no leak, however many wait for it. */
export function makeClosing(): AbortController {
  const closing = new AbortController()
  setMaxListeners(0, closing.signal)
  return closing
}
