import { encodeName, insertBeforeExtension } from '../../../src/domain/names.ts'
import { fileNameOf, type BagId } from '../../../src/domain/ids.ts'
import type { Intent } from '../../../src/intents/intent.ts'
import type { BagRecord } from '../../../src/domain/record.ts'

/** One visible thing of the model: `key` tells bags and intents apart. */
interface Item {
  readonly key: string
  readonly plain: string
  readonly order: readonly (string | number)[]
  readonly id: string
}

/**
 * The tree as the rules say it, over all records at once and with no index: shown name to key.
 * Names beyond the whole id (needed only for cut names) are out of its reach and throw.
 */
export function referenceTree(
  records: readonly BagRecord[],
  intents: readonly Intent[],
  folders: ReadonlySet<BagId> = new Set(),
): Map<string, string> {
  const plainOf = (one: { bagId: BagId; name: string }): string =>
    encodeName(folders.has(one.bagId) ? one.name.replace(/(?<=.)\.zip$/i, '') : one.name)
  const items = visibleRecords(records, intents).map((one): Item => {
    return {
      key: `bag ${one.bagId}`,
      plain: plainOf(one),
      order: [0, one.uploadedAtMs, one.bagId],
      id: fileNameOf(one.bagId),
    }
  })
  for (const intent of intents) {
    if (intent.kind !== 'put' || isSuperseded(intent, intents) || intent.phase === 'confirmed')
      continue
    items.push({
      key: `put ${intent.id}`,
      plain: encodeName(intent.name),
      order: [1, intent.id, ''],
      id: intent.id,
    })
  }
  return nameAll(items)
}

function isSuperseded(intent: Intent, intents: readonly Intent[]): boolean {
  return intents.some((other) => other.supersedes.includes(intent.id))
}

function visibleRecords(records: readonly BagRecord[], intents: readonly Intent[]): BagRecord[] {
  const givenBy = (intent: Intent): BagId | undefined =>
    intent.kind === 'put' && intent.phase === 'confirmed' ? intent.bagId : undefined
  const hides = (intent: Intent, bagId: BagId): boolean =>
    givenBy(intent) !== bagId &&
    (intent.replaces.includes(bagId) ||
      intents.some((old) => intent.supersedes.includes(old.id) && givenBy(old) === bagId))
  const isHidden = (bagId: BagId): boolean =>
    intents.some(
      (hider) =>
        hides(hider, bagId) &&
        !intents.some(
          (giver) =>
            giver.id > hider.id && givenBy(giver) === bagId && !isSuperseded(giver, intents),
        ),
    )
  const made = intents.flatMap((intent): BagRecord[] => {
    const bagId = givenBy(intent)
    if (intent.kind !== 'put' || bagId === undefined || isSuperseded(intent, intents)) return []
    if (records.some((one) => one.bagId === bagId && one.name === intent.name)) return []
    if (intents.some((later) => later.id > intent.id && hides(later, bagId))) return []
    return [
      {
        bagId,
        name: intent.name,
        size: 1,
        uploadedAtMs: intent.confirmedAtMs ?? 0,
        description: '',
      },
    ]
  })
  return [...records.filter(({ bagId }) => !isHidden(bagId)), ...made]
}

function nameAll(items: readonly Item[]): Map<string, string> {
  const tree = new Map<string, string>()
  const sorted = items.toSorted((one, other) => compare(other.order, one.order))
  let left: Item[] = []
  for (const item of sorted) {
    const twin = sorted.find((one) => one.key === item.key && one.plain === item.plain)
    if (twin !== item) continue
    if (tree.has(item.plain)) left.push(item)
    else tree.set(item.plain, item.key)
  }
  const plains = new Set(tree.keys())
  for (const length of [8, 12, 16, 32, 64]) {
    const named = left.map((item) =>
      insertBeforeExtension(item.plain, ` (${item.id.slice(0, length)})`),
    )
    const isFree = (place: number): boolean =>
      !plains.has(named[place] ?? '') && named.filter((name) => name === named[place]).length === 1
    for (const [place, item] of left.entries())
      if (isFree(place)) tree.set(named[place] ?? '', item.key)
    left = left.filter((_, place) => !isFree(place))
  }
  if (left.length > 0) throw new Error('The model does not name these.')
  return tree
}

function compare(one: readonly (string | number)[], other: readonly (string | number)[]): number {
  for (const [place, value] of one.entries()) {
    const against = other[place]
    if (against !== undefined && value !== against) return value < against ? -1 : 1
  }
  return 0
}
