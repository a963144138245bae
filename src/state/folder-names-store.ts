import { join } from 'node:path'
import { z } from 'zod'
import type { FolderNaming } from '../domain/folder-names.ts'
import type { Logger } from '../domain/logger.ts'
import { readJsonIfThere } from '../disk/if-there.ts'
import { writeFileAtomic } from '../disk/atomic-file.ts'

const fileSchema = z.object({ version: z.literal(1), names: z.enum(['plain', 'zipped']) })

/** How the service of an account names folders, in `folder-names.json` of its state directory. */
export class FolderNamesStore {
  readonly #path: string
  readonly #log: Logger
  #names: FolderNaming | undefined
  #saving: Promise<void> = Promise.resolve()

  private constructor(path: string, log: Logger, names: FolderNaming | undefined) {
    this.#path = path
    this.#log = log
    this.#names = names
  }

  /** Rejects `local-io` when the file cannot be read; one that cannot be understood is as good as none. */
  static async open(
    { log }: { readonly log: Logger },
    { dir }: { readonly dir: string },
  ): Promise<FolderNamesStore> {
    const path = join(dir, 'folder-names.json')
    return new FolderNamesStore(path, log, await read(path))
  }

  /** Undefined until it was learned. */
  get(): FolderNaming | undefined {
    return this.#names
  }

  /** What cannot be written is learned again by the next mount. */
  learn(names: FolderNaming): void {
    if (this.#names === names) return
    this.#names = names
    this.#log.info({ names }, 'Learned how the service names folders.')
    const text = `${JSON.stringify({ version: 1, names })}\n`
    this.#saving = this.#saving
      .then(() => writeFileAtomic(this.#path, text, { durable: true }))
      .catch((error: unknown) => {
        this.#log.warn({ error: String(error) }, 'How folders are named could not be kept.')
      })
  }

  /** Resolves when what was learned is on disk. */
  async close(): Promise<void> {
    await this.#saving
  }
}

async function read(path: string): Promise<FolderNaming | undefined> {
  const found = await readJsonIfThere(path, 'How folders are named cannot be read')
  return fileSchema.safeParse(found).data?.names
}
