import { spawn } from 'node:child_process'
import type { Clock } from '../domain/clock.ts'
import { describeConflict, type ShownConflict } from '../drive/root/conflicts.ts'
import type { DriveErrorCode } from '../domain/errors.ts'
import type { IntentId } from '../domain/ids.ts'
import type { Intent } from '../intents/intent.ts'
import type { Logger } from '../domain/logger.ts'
import { describeFailed } from '../outbox/words.ts'

/** Shows a notification on the desktop. */
export type ShowNotification = (title: string, body: string) => void

interface NotifierDeps {
  readonly outbox: {
    intents(): readonly Intent[]
    onChange(listener: () => void): () => void
  }
  readonly conflicts: { onConflict(listener: (conflict: ShownConflict) => void): () => void }
  readonly clock: Clock
  readonly show: ShowNotification
}

/** Something to tell: a title and a sentence. */
interface Notice {
  readonly title: string
  readonly body: string
}

const PAUSE_MS = 60_000
/** Failures that another try does not mend although it is made. */
const NEEDS_SOMEBODY: ReadonlySet<DriveErrorCode> = new Set([
  'unauthorized',
  'forbidden',
  'no-space',
])

/**
 * Tells of what no program was told of: an upload that began after close and failed, or that was
 * refused in a later try. Also of a file that another machine changed too. At most one notification
 * a minute; what comes in between is in the next.
 */
export class Notifier {
  readonly #deps: NotifierDeps
  readonly #writeBack: boolean
  /** Failures that were told or seen, by intent; removed with their intent or its failure. */
  readonly #known = new Map<IntentId, DriveErrorCode>()
  #untold: Notice[] = []
  #pausing = false
  readonly #stops: readonly (() => void)[]
  #cancelPause: (() => void) | undefined

  constructor(deps: NotifierDeps, settings: { readonly writeBack: boolean }) {
    this.#deps = deps
    this.#writeBack = settings.writeBack
    this.#stops = [
      deps.outbox.onChange(() => {
        this.#look()
      }),
      deps.conflicts.onConflict((conflict) => {
        this.#untold.push({ title: 'Changed on two machines', body: describeConflict(conflict) })
        this.#tell()
      }),
    ]
  }

  close(): Promise<void> {
    for (const stop of this.#stops) stop()
    this.#cancelPause?.()
    return Promise.resolve()
  }

  #look(): void {
    const left = new Set<IntentId>()
    for (const intent of this.#deps.outbox.intents()) {
      const { id, failure } = intent
      if (failure === undefined || !needsSomebody(failure)) continue
      left.add(id)
      if (this.#known.get(id) === failure.code) continue
      this.#known.set(id, failure.code)
      // In mode through, the first try was made while close waited, and its failure was close's.
      if (this.#writeBack || failure.tries > 1) {
        this.#untold.push({ title: `Not stored: ${intent.name}`, body: describeFailed(failure) })
      }
    }
    for (const id of this.#known.keys()) if (!left.has(id)) this.#known.delete(id)
    this.#tell()
  }

  #tell(): void {
    const [first] = this.#untold
    if (first === undefined || this.#pausing) return
    const others = this.#untold.length - 1
    this.#untold = []
    const more = others === 0 ? '' : others === 1 ? ' (and 1 more)' : ` (and ${others} more)`
    this.#deps.show(`${first.title}${more}`, first.body)
    this.#pausing = true
    this.#cancelPause = this.#deps.clock.after(PAUSE_MS, () => {
      this.#pausing = false
      this.#tell()
    })
  }
}

function needsSomebody({ code, waitsForUser }: NonNullable<Intent['failure']>): boolean {
  return waitsForUser || NEEDS_SOMEBODY.has(code)
}

/** Runs notify-send (libnotify); without one, or when it fails, the log has the failure all the same. */
export function notifySend(log: Logger): ShowNotification {
  return (title, body) => {
    const program = spawn('notify-send', ['--app-name=bagfs', '--', title, escapeMarkup(body)], {
      stdio: 'ignore',
      timeout: 10_000,
    })
    program.once('error', (error) => {
      log.debug({ error: error.message }, 'No notification could be shown.')
    })
    program.unref()
  }
}

/** Bodies may hold markup (Desktop Notifications Specification, "Markup"). */
function escapeMarkup(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}
