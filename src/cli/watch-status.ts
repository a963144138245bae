import type { DriveStatus } from '../control/protocol.ts'
import { transfersOf, TransferSpeeds } from '../control/transfer-speeds.ts'
import { systemClock } from '../domain/clock.ts'
import { describeStatus } from '../mount/status-words.ts'
import { toPrintable } from '../domain/printable.ts'
import { fitScreen } from './fit-screen.ts'
import type { Output } from './output.ts'
import { listenForStop } from './signals.ts'

const LOOK_EVERY_MS = 1_000

/** Home, and all below cleared: what is drawn anew does not flicker. */
const CLEAR = '\u001b[H\u001b[J'

/** The drives in words, with the speeds of transfers from one look at them to the next. */
export class StatusTexts {
  readonly #speeds = new Map<string, TransferSpeeds>()

  note(all: readonly DriveStatus[]): void {
    for (const status of all) {
      const speeds = this.#speeds.get(status.mountpoint) ?? new TransferSpeeds()
      this.#speeds.set(status.mountpoint, speeds)
      speeds.note(transfersOf(status), systemClock.now())
    }
  }

  of(status: DriveStatus): string {
    const speeds = this.#speeds.get(status.mountpoint)
    return describeStatus(status, systemClock.now(), speeds).trimEnd()
  }
}

/** Looks at drives twice when something goes up or comes down: once tells no speed. */
export async function lookForSpeeds<Seen extends { readonly all: readonly DriveStatus[] }>(
  look: () => Promise<Seen>,
  texts: StatusTexts,
): Promise<Seen> {
  const first = await look()
  texts.note(first.all)
  if (first.all.every((status) => transfersOf(status).length === 0)) return first
  await systemClock.sleep(LOOK_EVERY_MS)
  const second = await look()
  texts.note(second.all)
  return second
}

/** Shows a text anew each second until Ctrl-C: in its place on a terminal, as far as it has room, else one after the other. */
export async function showAgain(output: Output, text: () => Promise<string>): Promise<void> {
  const signals = listenForStop()
  try {
    while (!signals.stop.aborted) {
      const lines = (await text()).split('\n').map(toPrintable)
      const size = output.screenSize
      if (output.isOnTerminal) output.raw('stdout', CLEAR)
      const shown = size === undefined ? [...lines, ''] : fitScreen(lines, size)
      for (const line of shown) output.line(line)
      await systemClock.sleep(LOOK_EVERY_MS, signals.stop).catch(() => undefined)
    }
  } finally {
    signals.ignore()
  }
}
