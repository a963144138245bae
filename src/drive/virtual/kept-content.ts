import type { Clock } from '../../domain/clock.ts'
import type { VirtualContent, VirtualFile } from './virtual-entry.ts'

/** How long a kernel may trust attributes that it was told, and a little more. */
const TRUSTED_MS = 1_100
/** Content is made anew for a look after this. */
const FRESH_MS = 1_000
/** A reader that does not get to the end holds content back from later looks for this long. */
const SLOW_READER_MS = 10_000

/** Content with a count of its users; it is closed with the last of them. */
export class SharedContent {
  readonly content: VirtualContent
  readonly madeAtMs: number
  #users = 1
  /** Handles that have not read to the end. */
  unread = 0

  constructor(content: VirtualContent, madeAtMs: number) {
    this.content = content
    this.madeAtMs = madeAtMs
  }

  retain(): this {
    this.#users += 1
    return this
  }

  release(): void {
    this.#users -= 1
    if (this.#users === 0) this.content.source.close()
  }
}

/**
 * What is known of a made-up file's content. The kernel cuts reads at the size that it last heard. So an open of the
 * file gets the very content whose size was told, as long as the kernel trusts that size.
 */
export class KeptContent {
  readonly #file: VirtualFile
  readonly #clock: Clock
  #kept: SharedContent | undefined
  #shownAtMs = -Infinity
  #cancel: (() => void) | undefined
  #making: Promise<SharedContent> | undefined

  constructor(file: VirtualFile, clock: Clock) {
    this.#file = file
    this.#clock = clock
  }

  /** For attributes: as fresh as the sizes that were told before allow. */
  async tell(): Promise<VirtualContent> {
    const { content } = this.#stillFresh() ?? (await this.#make())
    this.#shownAtMs = this.#clock.now()
    this.#forgetLater()
    return content
  }

  /** As `tell`, for finding the file on the way to another call: what was told stays. */
  async glance(): Promise<VirtualContent> {
    const trusted = this.#stillTrusted()
    return trusted === undefined ? this.tell() : trusted.content
  }

  /** For opening; the caller releases it. */
  async open(): Promise<SharedContent> {
    const shared = this.#stillTrusted() ?? (await this.#make())
    this.#forgetLater()
    return shared.retain()
  }

  /** As `open`, for reads that no told size cuts: these hold nothing back from later looks. */
  async openFresh(): Promise<SharedContent> {
    const kept = this.#kept
    const shared = kept !== undefined && this.#isFresh(kept) ? kept : await this.#make()
    this.#forgetLater()
    return shared.retain()
  }

  #isFresh({ madeAtMs }: SharedContent): boolean {
    const age = this.#clock.now() - madeAtMs
    return age >= 0 && age < FRESH_MS
  }

  #stillFresh(): SharedContent | undefined {
    const kept = this.#kept
    if (kept === undefined) return undefined
    if (this.#isFresh(kept)) return kept
    const age = this.#clock.now() - kept.madeAtMs
    return kept.unread > 0 && age < SLOW_READER_MS ? kept : undefined
  }

  #stillTrusted(): SharedContent | undefined {
    const sinceShown = this.#clock.now() - this.#shownAtMs
    const isTrusted = sinceShown >= 0 && sinceShown < TRUSTED_MS
    return isTrusted ? this.#kept : this.#stillFresh()
  }

  async #make(): Promise<SharedContent> {
    this.#making ??= this.#makeNow().finally(() => {
      this.#making = undefined
    })
    return this.#making
  }

  async #makeNow(): Promise<SharedContent> {
    const made = new SharedContent(await this.#file.open(), this.#clock.now())
    this.#kept?.release()
    this.#kept = made
    return made
  }

  /** Content of bags holds a descriptor: it is let go of once no kernel can go by its size. */
  #forgetLater(): void {
    this.#cancel?.()
    this.#cancel = this.#clock.after(TRUSTED_MS, () => {
      this.#cancel = undefined
      if ((this.#kept?.unread ?? 0) > 0) {
        this.#forgetLater()
        return
      }
      this.#kept?.release()
      this.#kept = undefined
    })
  }
}
