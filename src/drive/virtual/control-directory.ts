import type { Clock } from '../../domain/clock.ts'
import type { IntentId } from '../../domain/ids.ts'
import type { Intent, PutIntent } from '../../intents/intent.ts'
import { encodeName, insertBeforeExtension } from '../../domain/names.ts'
import type { Outbox } from '../../outbox/outbox.ts'
import type { Contents } from '../root/contents.ts'
import {
  fixedDirectory,
  textFile,
  type VirtualDirectory,
  type VirtualFile,
} from './virtual-entry.ts'

export interface ControlDirectoryDeps {
  readonly outbox: Outbox
  readonly contents: Contents
  /** What `status` and `status.json` say. */
  readonly status: { text(): string; json(): string }
  readonly clock: Clock
  readonly trash: VirtualDirectory
}

/** `.bagfs`: `status`, `status.json`, `outbox/` with the content of what waits or failed, and `trash/`. */
export function controlDirectory(deps: ControlDirectoryDeps): VirtualDirectory {
  const now = (): number => deps.clock.now()
  return fixedDirectory(
    new Map<string, VirtualFile | VirtualDirectory>([
      ['status', textFile(() => deps.status.text(), now)],
      ['status.json', textFile(() => deps.status.json(), now)],
      ['outbox', new OutboxDirectory(deps)],
      ['trash', deps.trash],
    ]),
  )
}

/** Content that the service does not have, each under its name; of several with one name all but the newest with their id. */
class OutboxDirectory implements VirtualDirectory {
  readonly kind = 'directory'
  readonly #deps: ControlDirectoryDeps
  /** So that a name leads to the same node each time; those that ended go with the next change. */
  #files = new Map<IntentId, VirtualFile>()
  #named: { readonly of: readonly Intent[]; readonly byName: ReadonlyMap<string, PutIntent> }

  constructor(deps: ControlDirectoryDeps) {
    this.#deps = deps
    this.#named = { of: [], byName: new Map() }
  }

  names(): readonly string[] {
    return [...this.#byName().keys()]
  }

  find(name: string): VirtualFile | undefined {
    const put = this.#byName().get(name)
    if (put === undefined) return undefined
    let file = this.#files.get(put.id)
    if (file === undefined) {
      file = { kind: 'file', open: () => this.#open(put) }
      this.#files.set(put.id, file)
    }
    return file
  }

  async #open(put: PutIntent) {
    const latest = this.#deps.outbox.put(put.id) ?? put
    const source = this.#deps.contents.open({ kind: 'pending', shown: put.name, intent: latest })
    try {
      return { source, size: await source.length(), mtimeMs: latest.mtimeMs }
    } catch (error) {
      source.close()
      throw error
    }
  }

  #byName(): ReadonlyMap<string, PutIntent> {
    const intents = this.#deps.outbox.intents()
    if (this.#named.of !== intents) {
      const byName = nameContents(intents)
      this.#named = { of: intents, byName }
      const left = new Set([...byName.values()].map(({ id }) => id))
      this.#files = new Map([...this.#files].filter(([id]) => left.has(id)))
    }
    return this.#named.byName
  }
}

/** The newest has the plain name, older ones `name (id).ext`. */
export function nameContents(intents: readonly Intent[]): ReadonlyMap<string, PutIntent> {
  const byName = new Map<string, PutIntent>()
  for (const intent of intents.toReversed()) {
    if (intent.kind !== 'put' || intent.phase === 'confirmed') continue
    if (intent.content.from !== 'staged' && intent.content.from !== 'bag') continue
    const plain = encodeName(intent.name)
    byName.set(byName.has(plain) ? insertBeforeExtension(plain, ` (${intent.id})`) : plain, intent)
  }
  return byName
}
