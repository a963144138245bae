import { withoutZip } from '../../domain/folder-names.ts'
import type { BagId } from '../../domain/ids.ts'
import { encodeName } from '../../domain/names.ts'
import type { Intent } from '../../intents/intent.ts'
import { sourceOf } from '../../intents/rules.ts'
import type { ListingIndex } from '../../namespace/listing-index.ts'
import type { Outbox } from '../../outbox/outbox.ts'

interface KnownIntents {
  readonly index: ListingIndex
  readonly outbox: Pick<Outbox, 'get' | 'ofBag'>
}

/** Plain names of the root that may mean something else when an intent comes, changes or goes. */
export function* namesOfIntent(known: KnownIntents, intent: Intent): Iterable<string> {
  const { name, replaces, supersedes, deleted = [] } = intent
  yield encodeName(name)
  for (const id of supersedes) {
    const superseded = known.outbox.get(id)
    if (superseded !== undefined) yield encodeName(superseded.name)
  }
  for (const bagId of replaces) yield* namesInListing(known, bagId)
  for (const { bagId } of deleted) yield* namesInListing(known, bagId)
  if (intent.kind !== 'put') return
  if (intent.bagId !== undefined) yield* namesInListing(known, intent.bagId)
  if (intent.content.from === 'bag') yield* namesInListing(known, intent.content.bagId)
}

/** The plain names that lead, or may come to lead, to a bag: with its kind the name of a folder changes. */
export function* namesOfBag(known: KnownIntents, bagId: BagId): Iterable<string> {
  yield* namesInListing(known, bagId)
  for (const intent of known.outbox.ofBag(bagId)) {
    if (intent.kind !== 'put') continue
    if (sourceOf(intent) === bagId || intent.bagId === bagId) yield encodeName(intent.name)
  }
}

function* namesInListing({ index }: KnownIntents, bagId: BagId): Iterable<string> {
  for (const { name } of index.recordsOf(bagId)) {
    const bare = withoutZip(name)
    yield encodeName(bare)
    yield encodeName(`${bare}.zip`)
    yield encodeName(name)
  }
}
