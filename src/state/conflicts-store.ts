import { join } from 'node:path'
import { z } from 'zod'
import { readJsonIfThere } from '../disk/if-there.ts'
import { isBagId, type BagId } from '../domain/ids.ts'
import type { Logger } from '../domain/logger.ts'
import { SavedBehind } from './saved-behind.ts'

const conflictSchema = z.object({
  /** As the service has it. */
  name: z.string(),
  /** The other machine's version. */
  bagId: z.custom<BagId>((id) => typeof id === 'string' && isBagId(id)),
  /** In milliseconds since the epoch. */
  atMs: z.number(),
})

/** A name that was changed here and on another machine at the same time. */
export type Conflict = Readonly<z.infer<typeof conflictSchema>>

const fileSchema = z.object({ version: z.literal(1), conflicts: z.array(conflictSchema) })

/** The conflicts that were told, oldest first, in `conflicts.json` of the state directory: the next mount tells them, too. */
export class ConflictsStore {
  readonly #file: SavedBehind
  #conflicts: readonly Conflict[]

  private constructor(file: SavedBehind, conflicts: readonly Conflict[]) {
    this.#file = file
    this.#conflicts = conflicts
  }

  /** Rejects `local-io` when the file cannot be read; one that cannot be understood is as good as none. */
  static async open(
    { log }: { readonly log: Logger },
    { dir }: { readonly dir: string },
  ): Promise<ConflictsStore> {
    const path = join(dir, 'conflicts.json')
    const found = await readJsonIfThere(path, 'The conflicts that were told cannot be read')
    const failed = 'A conflict could not be written down.'
    const file = new SavedBehind({ log }, { path, failed, durable: false })
    return new ConflictsStore(file, fileSchema.safeParse(found).data?.conflicts ?? [])
  }

  all(): readonly Conflict[] {
    return this.#conflicts
  }

  /** Both versions stay in any case: what cannot be written is in the log only. */
  replace(conflicts: readonly Conflict[]): void {
    this.#conflicts = conflicts
    this.#file.save({ version: 1, conflicts })
  }

  /** Resolves when all is on disk, as far as it can be. */
  async close(): Promise<void> {
    await this.#file.close()
  }
}
