import { Readable } from 'node:stream'
import type { ControlActions } from '../control/actions.ts'
import type {
  DriveStatus,
  Synced,
  TraceEvent,
  TraceFilter,
  WireExplanation,
  WirePin,
  WireWarmedUp,
} from '../control/protocol.ts'
import { isOwed } from '../control/status.ts'
import type { BagCache } from '../content/bag-cache.ts'
import { verifyCache } from '../content/verify.ts'
import type { Clock } from '../domain/clock.ts'
import { DriveError } from '../domain/errors.ts'
import type { BagId } from '../domain/ids.ts'
import type { Contents } from '../drive/root/contents.ts'
import type { Drive } from '../drive/drive.ts'
import type { Source } from '../drive/tree/source.ts'
import { chooseItems, listItems, type OutboxItem } from '../outbox/items.ts'
import type { Metrics } from '../metrics/metrics.ts'
import type { Outbox } from '../outbox/outbox.ts'
import type { Uploader } from '../outbox/uploader.ts'
import type { TraceHub } from '../trace/trace-hub.ts'
import type { TrashItem } from '../trash/item.ts'
import { chooseItem } from '../trash/item-names.ts'
import { whileReporting } from './while-reporting.ts'

export interface DriveActionsDeps {
  readonly drive: Pick<Drive, 'commands' | 'space'>
  readonly outbox: Outbox
  readonly uploader: Uploader
  readonly cache: BagCache
  readonly contents: Contents
  readonly facts: { bagIds(): Iterable<BagId> }
  readonly status: () => DriveStatus
  readonly metrics: Metrics
  readonly traces: TraceHub
  readonly clock: Clock
}

const BLOCK_BYTES = 256 * 1024

/** What a running drive does when it is asked, but for leaving. */
export class DriveActions implements Omit<ControlActions, 'leave'> {
  readonly #deps: DriveActionsDeps

  constructor(deps: DriveActionsDeps) {
    this.#deps = deps
  }

  status(): DriveStatus {
    return this.#deps.status()
  }

  renewSpace(): Promise<void> {
    return this.#deps.drive.space.catchUp()
  }

  explain(names: readonly string[]): Promise<WireExplanation> {
    return this.#deps.drive.commands.explain(names)
  }

  warmUp(
    names: readonly string[],
    options: Parameters<ControlActions['warmUp']>[1],
  ): Promise<WireWarmedUp> {
    return this.#deps.drive.commands.warmUp(names, options)
  }

  pin(names: readonly string[]): Promise<WirePin> {
    return this.#deps.drive.commands.pin(names)
  }

  unpin(names: readonly string[]): Promise<string> {
    return this.#deps.drive.commands.pins.unpin(names)
  }

  refresh(): Promise<number> {
    return this.#deps.drive.commands.refresh()
  }

  metrics(): Promise<string> {
    return this.#deps.metrics.text(this.status())
  }

  trace(filter: TraceFilter, signal: AbortSignal): AsyncIterable<readonly TraceEvent[]> {
    return this.#deps.traces.follow(filter, signal)
  }

  async sync({ name, onProgress }: Parameters<ControlActions['sync']>[0]): Promise<Synced> {
    const { drive, clock } = this.#deps
    const startedAtMs = clock.now()
    const report = (): void => {
      onProgress(this.#items().filter(isOwed).length)
    }
    try {
      const beingWritten = await whileReporting(clock, report, () => drive.commands.sync(name))
      return { left: [], beingWritten }
    } catch (error) {
      const failed = this.#items().filter(({ failure }) => (failure?.atMs ?? 0) >= startedAtMs)
      if (!(error instanceof DriveError) || failed.length === 0) throw error
      return { left: failed, beingWritten: [] }
    }
  }

  async retry(wanted: readonly string[]): Promise<readonly OutboxItem[]> {
    const { uploader } = this.#deps
    const items = this.#items()
    const chosen =
      wanted.length === 0
        ? items.filter(({ failure }) => failure !== undefined)
        : chooseItems(items, wanted)
    for (const { id } of chosen) await uploader.retry(id)
    return chosen
  }

  async discard(wanted: readonly string[]): Promise<readonly OutboxItem[]> {
    const chosen = chooseItems(this.#items(), wanted)
    await this.#deps.drive.commands.discard(chosen.map(({ id }) => id))
    return chosen
  }

  async openContent(wanted: string): Promise<Readable> {
    const [item] = chooseItems(this.#items(), [wanted])
    const intent = item && this.#deps.outbox.get(item.id)
    if (intent?.kind !== 'put') {
      throw new DriveError('not-found', 'This change has no content: it deletes something.')
    }
    if (intent.content.from === 'folder') {
      throw new DriveError('not-found', `The changes of ${intent.name} are not packed yet.`, {
        hint: 'Copy the folder out of the drive, or let bagfs sync pack it.',
      })
    }
    const source = this.#deps.contents.open({ kind: 'pending', shown: intent.name, intent })
    try {
      await source.length()
    } catch (error) {
      source.close()
      throw error
    }
    return Readable.from(blocksOf(source), { objectMode: false })
  }

  async verifyCache({ onProgress, signal }: Parameters<ControlActions['verifyCache']>[0]) {
    const { cache, facts } = this.#deps
    const report = await verifyCache(cache, [...facts.bagIds()], { onProgress, signal })
    return { ...report, bad: [...report.bad], unreadable: [...report.unreadable] }
  }

  async clearCache(): Promise<void> {
    await this.#deps.cache.clear()
  }

  trash(): readonly TrashItem[] {
    return this.#deps.drive.commands.trash.items()
  }

  async restore(
    wanted: string,
    options: Parameters<ControlActions['restore']>[1],
  ): Promise<TrashItem> {
    const item = chooseItem(this.trash(), wanted)
    await this.#deps.drive.commands.trash.restore(item.bagId, options)
    return item
  }

  async emptyTrash(wanted: readonly string[]): Promise<readonly TrashItem[]> {
    const items = this.trash()
    const chosen = wanted.length === 0 ? items : wanted.map((each) => chooseItem(items, each))
    await this.#deps.drive.commands.trash.empty(chosen.map(({ bagId }) => bagId))
    return chosen
  }

  #items(): readonly OutboxItem[] {
    return listItems(this.#deps.outbox.intents(), this.#deps.uploader)
  }
}

async function* blocksOf(source: Source): AsyncGenerator<Buffer> {
  try {
    for (let position = 0; ;) {
      const block = Buffer.allocUnsafe(BLOCK_BYTES)
      const count = await source.read(block, position)
      if (count === 0) return
      position += count
      yield block.subarray(0, count)
    }
  } finally {
    source.close()
  }
}
