import { join } from 'node:path'
import { z } from 'zod'
import type { FolderNaming } from '../domain/folder-names.ts'
import type { Logger } from '../domain/logger.ts'
import { readJsonIfThere } from '../disk/if-there.ts'
import { SavedBehind } from './saved-behind.ts'

const fileSchema = z.object({ version: z.literal(1), names: z.enum(['plain', 'zipped']) })

/** How the service of an account names folders, in `folder-names.json` of its state directory. */
export class FolderNamesStore {
  readonly #file: SavedBehind
  readonly #log: Logger
  #names: FolderNaming | undefined

  private constructor(file: SavedBehind, log: Logger, names: FolderNaming | undefined) {
    this.#file = file
    this.#log = log
    this.#names = names
  }

  /** Rejects `local-io` when the file cannot be read; one that cannot be understood is as good as none. */
  static async open(
    { log }: { readonly log: Logger },
    { dir }: { readonly dir: string },
  ): Promise<FolderNamesStore> {
    const path = join(dir, 'folder-names.json')
    const failed = 'How folders are named could not be kept.'
    const file = new SavedBehind({ log }, { path, failed, durable: true })
    return new FolderNamesStore(file, log, await read(path))
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
    this.#file.save({ version: 1, names })
  }

  /** Resolves when what was learned is on disk. */
  async close(): Promise<void> {
    await this.#file.close()
  }
}

async function read(path: string): Promise<FolderNaming | undefined> {
  const found = await readJsonIfThere(path, 'How folders are named cannot be read')
  return fileSchema.safeParse(found).data?.names
}
