import { join } from 'node:path'
import { z } from 'zod'
import { writeFileAtomic } from '../disk/atomic-file.ts'
import { readJsonIfThere } from '../disk/if-there.ts'
import type { Logger } from '../domain/logger.ts'
import { attributeFields, keptFields, specialNode } from './attribute-fields.ts'

const part = z.object({
  path: z.string().min(1),
  special: z.exactOptional(z.object({ ...specialNode.shape, ...keptFields })),
  extended: attributeFields.extended,
})

/** A path in a folder, and what this machine has of it: a node, or extended attributes of what is there. */
export type LocalPart = Readonly<z.infer<typeof part>>

const fileSchema = z.object({
  version: z.literal(1),
  folders: z.record(z.string(), z.array(part)),
})

/** What never leaves this machine of what is in folders, by the name of the folder, in `local-parts.json` of the state directory. */
export class LocalPartsStore {
  readonly #path: string
  readonly #log: Logger
  readonly #folders: Map<string, readonly LocalPart[]>
  #saving: Promise<void> = Promise.resolve()
  #isToSave = false

  private constructor(
    path: string,
    log: Logger,
    folders: Readonly<Record<string, readonly LocalPart[]>>,
  ) {
    this.#path = path
    this.#log = log
    this.#folders = new Map(Object.entries(folders))
  }

  /** Rejects `local-io` when the file cannot be read; one that cannot be understood is as good as none. */
  static async open(
    { log }: { readonly log: Logger },
    { dir }: { readonly dir: string },
  ): Promise<LocalPartsStore> {
    const path = join(dir, 'local-parts.json')
    const found = await readJsonIfThere(path, 'What this machine has of folders cannot be read')
    return new LocalPartsStore(path, log, fileSchema.safeParse(found).data?.folders ?? {})
  }

  of(folder: string): readonly LocalPart[] {
    return this.#folders.get(folder) ?? []
  }

  /** Takes the place of what the folder had. Written behind. */
  set(folder: string, nodes: readonly LocalPart[]): void {
    if (nodes.length === 0 && !this.#folders.has(folder)) return
    if (nodes.length === 0) this.#folders.delete(folder)
    else this.#folders.set(folder, nodes)
    this.#save()
  }

  /** A folder got another name. */
  move(from: string, to: string): void {
    const nodes = this.of(from)
    this.set(from, [])
    this.set(to, nodes)
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
        this.#log.warn(
          { error: String(error) },
          'What this machine has of folders could not be kept.',
        )
      })
  }

  /** Resolves when all is on disk. */
  async close(): Promise<void> {
    await this.#saving
  }
}
