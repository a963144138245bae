import { join } from 'node:path'
import { z } from 'zod'
import { writeFileAtomic } from '../disk/atomic-file.ts'
import { readJsonIfThere } from '../disk/if-there.ts'
import type { Logger } from '../domain/logger.ts'

/** What a file of the state directory has of what is in folders. */
interface Kind<Note> {
  readonly fileName: string
  readonly schema: z.ZodType<Note>
  /** For sentences: what it is. */
  readonly words: string
}

interface KeptNotes<Note> {
  readonly path: string
  readonly words: string
  readonly folders: Readonly<Record<string, readonly Note[]>>
}

/** What never leaves this machine of what is in folders, by the name of the folder: a file of the state directory. */
export class PerFolderStore<Note> {
  readonly #path: string
  readonly #words: string
  readonly #log: Logger
  readonly #folders: Map<string, readonly Note[]>
  #saving: Promise<void> = Promise.resolve()
  #isToSave = false

  private constructor(log: Logger, { path, words, folders }: KeptNotes<Note>) {
    this.#path = path
    this.#words = words
    this.#log = log
    this.#folders = new Map(Object.entries(folders))
  }

  /** Rejects `local-io` when the file cannot be read; one that cannot be understood is as good as none. */
  static async open<Note>(
    { fileName, schema, words }: Kind<Note>,
    { log }: { readonly log: Logger },
    { dir }: { readonly dir: string },
  ): Promise<PerFolderStore<Note>> {
    const path = join(dir, fileName)
    const found = await readJsonIfThere(path, `${words} cannot be read`)
    const folders = z.record(z.string(), z.array(schema))
    const file = z.object({ version: z.literal(1), folders }).safeParse(found)
    return new PerFolderStore(log, { path, words, folders: file.data?.folders ?? {} })
  }

  of(folder: string): readonly Note[] {
    return this.#folders.get(folder) ?? []
  }

  /** Takes the place of what the folder had. Written behind. */
  set(folder: string, notes: readonly Note[]): void {
    if (notes.length === 0 && !this.#folders.has(folder)) return
    if (notes.length === 0) this.#folders.delete(folder)
    else this.#folders.set(folder, notes)
    this.#save()
  }

  /** A folder got another name. */
  move(from: string, to: string): void {
    const notes = this.of(from)
    this.set(from, [])
    this.set(to, notes)
  }

  /** Each of two folders got the name of the other. */
  exchange(one: string, other: string): void {
    const [ofOne, ofOther] = [this.of(one), this.of(other)]
    this.set(one, ofOther)
    this.set(other, ofOne)
  }

  /** Changes that come while one is written go out together. */
  #save(): void {
    if (this.#isToSave) return
    this.#isToSave = true
    this.#saving = this.#saving
      .then(async () => {
        this.#isToSave = false
        const value = { version: 1, folders: Object.fromEntries(this.#folders) }
        await writeFileAtomic(this.#path, `${JSON.stringify(value)}\n`, { durable: false })
      })
      .catch((error: unknown) => {
        this.#log.warn({ error: String(error) }, `${this.#words} could not be kept.`)
      })
  }

  /** Resolves when all is on disk. */
  async close(): Promise<void> {
    await this.#saving
  }
}
