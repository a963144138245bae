import { rename } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { writeFileAtomic } from '../disk/atomic-file.ts'
import { ifThere, isThere, readJsonIfThere } from '../disk/if-there.ts'
import type { Clock } from '../domain/clock.ts'
import { fromFileSystem } from '../domain/errors.ts'
import { isBagId, type BagId } from '../domain/ids.ts'
import type { Logger } from '../domain/logger.ts'

const pinSchema = z.object({
  /** Of the root, as it shows. */
  name: z.string().min(1),
  /** What the name meant when it was looked at last. */
  bagId: z.exactOptional(z.custom<BagId>((id) => typeof id === 'string' && isBagId(id))),
  /** Since when nothing has the name, in ms since the epoch, and whether it was taken away on this machine. */
  missing: z.exactOptional(z.object({ sinceMs: z.number(), isOurs: z.boolean() })),
})

/** A name of the root whose content is kept on this machine. */
export type Pin = Readonly<z.infer<typeof pinSchema>>

const fileSchema = z.object({ version: z.literal(1), pins: z.array(pinSchema) })

interface PinsStoreDeps {
  readonly clock: Clock
  readonly log: Logger
}

/** What is pinned, in the order in which it was, in `pins.json` of the state directory. */
export class PinsStore {
  readonly #path: string
  readonly #deps: PinsStoreDeps
  readonly #listeners = new Set<() => void>()
  #pins: readonly Pin[]
  #saving: Promise<void> = Promise.resolve()
  #isToSave = false

  private constructor(path: string, deps: PinsStoreDeps, pins: readonly Pin[]) {
    this.#path = path
    this.#deps = deps
    this.#pins = pins
  }

  /** Rejects `local-io` when the file cannot be read; one that cannot be understood is set aside, and the log tells it. */
  static async open(deps: PinsStoreDeps, { dir }: { readonly dir: string }): Promise<PinsStore> {
    const path = join(dir, 'pins.json')
    const what = 'What is pinned cannot be read'
    const parsed = fileSchema.safeParse(await readJsonIfThere(path, what))
    if (parsed.success) return new PinsStore(path, deps, parsed.data.pins)
    if (await isThere(path, what)) {
      const aside = `${path}.bad`
      await ifThere(rename(path, aside), what)
      deps.log.warn({ aside }, 'What was pinned cannot be understood; it was set aside.')
    }
    return new PinsStore(path, deps, [])
  }

  all(): readonly Pin[] {
    return this.#pins
  }

  has(name: string): boolean {
    return this.#pins.some((pin) => pin.name === name)
  }

  /** Calls `listener` when a name was pinned, unpinned, renamed or taken away; returns the function that ends this. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Resolves when it would survive a power cut; rejects, with nothing pinned, when it cannot be written. */
  async add(name: string): Promise<void> {
    const isIn = (pins: readonly Pin[]): boolean => pins.some((pin) => pin.name === name)
    await this.#promise((pins) => (isIn(pins) ? pins : [...pins, { name }]))
  }

  /** As `add`. False for a name that is not pinned. */
  async remove(name: string): Promise<boolean> {
    if (!this.has(name)) return false
    await this.#promise((pins) => pins.filter((pin) => pin.name !== name))
    return true
  }

  /** The name got another one on this machine. Returns the function that takes this back. */
  renamed(from: string, to: string): () => void {
    const moved = this.#pins.find((pin) => pin.name === from)
    if (moved === undefined) return () => undefined
    const named = [from, to]
    const before = this.#pins.filter(({ name }) => named.includes(name))
    const restore = (pins: readonly Pin[]): void => {
      this.#put([...this.#pins.filter(({ name }) => !named.includes(name)), ...pins])
      this.#tell()
    }
    const { bagId } = moved
    restore([{ name: to, ...(bagId === undefined ? {} : { bagId }) }])
    return () => {
      restore(before)
    }
  }

  /** The name was taken away on this machine; a save may be about to bring it back. */
  removed(name: string): void {
    if (!this.has(name)) return
    const missing = { sinceMs: this.#deps.clock.now(), isOurs: true }
    this.replace(this.#pins.map((pin) => (pin.name === name ? { ...pin, missing } : pin)))
    this.#tell()
  }

  /** What is known of pins now, none of it promised: written behind. */
  replace(pins: readonly Pin[]): void {
    if (JSON.stringify(pins) !== JSON.stringify(this.#pins)) this.#put(pins)
  }

  /** Resolves when all is on disk, as far as it can be. */
  async close(): Promise<void> {
    this.#listeners.clear()
    await this.#saving
  }

  #tell(): void {
    for (const listener of [...this.#listeners]) listener()
  }

  /** The change counts once it is on the disk. */
  async #promise(change: (pins: readonly Pin[]) => readonly Pin[]): Promise<void> {
    const written = this.#saving.then(async () => {
      await this.#write(change(this.#pins), { durable: true })
      this.#pins = change(this.#pins)
    })
    this.#saving = written.catch(() => undefined)
    try {
      await written
    } catch (error) {
      throw fromFileSystem(error, 'What is pinned cannot be written down')
    }
    this.#tell()
  }

  #put(pins: readonly Pin[]): void {
    this.#pins = pins
    if (this.#isToSave) return
    this.#isToSave = true
    this.#saving = this.#saving
      .then(async () => {
        this.#isToSave = false
        await this.#write(this.#pins, { durable: false })
      })
      .catch((error: unknown) => {
        this.#deps.log.warn({ error: String(error) }, 'What is pinned could not be written down.')
      })
  }

  async #write(pins: readonly Pin[], options: { readonly durable: boolean }): Promise<void> {
    const value = { version: 1, pins }
    await writeFileAtomic(this.#path, `${JSON.stringify(value)}\n`, options)
  }
}
