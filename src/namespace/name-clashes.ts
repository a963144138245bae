import { createHash } from 'node:crypto'
import { cutName, insertBeforeExtension, splitName } from '../domain/names.ts'
import { fileNameOf } from '../domain/ids.ts'
import { newestFirst, toEntry, type Candidate, type Entry } from './entry.ts'

/**
 * Names that may need a mark to stay distinct form a clash group. They have the same clash key: the
 * extension, and the stem up to the first thing that looks like the head of an id. The names of a
 * group depend on its members alone, so a change concerns only the groups that it touches.
 */
const HEAD_OF_ID = / \((?=[0-9A-Za-z]{8})/

/**
 * Stems are compared up to this many bytes. The longest mark (67 bytes) and extension (24) leave
 * 164 bytes of a stem. The difference covers a code or a mark that is cut in two.
 */
const STEM_BYTES = 120
const HEAD_LENGTHS = [8, 12, 16, 32, 64]

/** The key of the clash group that a shown name belongs to. For most names it is the name itself. */
export function clashKeyOf(shown: string): string {
  const head = shown.search(HEAD_OF_ID)
  if (head < 0 && Buffer.byteLength(shown) <= STEM_BYTES) return shown
  const { stem, extension } = splitName(shown)
  // An extension has no space, so the head of an id is always in the stem.
  return cutName(head < 0 ? stem : stem.slice(0, head), STEM_BYTES) + extension
}

/**
 * Names the members of a clash group. The newest candidate for a plain name gets it. The older ones
 * get the head of their id. It is longer where another candidate has or wants the same name.
 */
export function nameClashing(candidates: readonly Candidate[]): ReadonlyMap<string, Entry> {
  const [only] = candidates
  if (only !== undefined && candidates.length === 1) {
    return new Map([[only.plain, toEntry(only, only.plain)]])
  }
  const named = new Map<string, Entry>()
  const older: Candidate[] = []
  for (const group of groupByPlain(candidates)) {
    for (const [place, candidate] of withoutRepeats(group).entries()) {
      if (place === 0) named.set(candidate.plain, toEntry(candidate, candidate.plain))
      else older.push(candidate)
    }
  }
  for (const [candidate, shown] of nameOlder(older, new Set(named.keys()))) {
    named.set(shown, toEntry(candidate, shown))
  }
  return named
}

/** How many entries a clash group has, without making their names. */
export function countEntries(candidates: Iterable<Candidate>): number {
  return new Set(Array.from(candidates, (one) => `${one.plain}/${idOf(one)}`)).size
}

function groupByPlain(candidates: Iterable<Candidate>): Iterable<Candidate[]> {
  const groups = new Map<string, Candidate[]>()
  for (const candidate of candidates) {
    const group = groups.get(candidate.plain)
    if (group === undefined) groups.set(candidate.plain, [candidate])
    else group.push(candidate)
  }
  return groups.values()
}

/** Newest first; a bag that is listed twice under the same name is one entry. */
function withoutRepeats(group: Candidate[]): Candidate[] {
  const seen = new Set<string>()
  return group.sort(newestFirst).filter((candidate) => {
    const id = idOf(candidate)
    const isNew = !seen.has(id)
    seen.add(id)
    return isNew
  })
}

function* nameOlder(
  older: readonly Candidate[],
  plains: ReadonlySet<string>,
): Iterable<[Candidate, string]> {
  let left = older
  for (let level = 0; left.length > 0; level += 1) {
    const wanted = left.map((candidate): [Candidate, string] => [
      candidate,
      nameAt(candidate, level),
    ])
    const wishes = new Map<string, number>()
    for (const [, shown] of wanted) wishes.set(shown, (wishes.get(shown) ?? 0) + 1)
    const isFree = (shown: string): boolean => wishes.get(shown) === 1 && !plains.has(shown)
    yield* wanted.filter(([, shown]) => isFree(shown))
    left = wanted.filter(([, shown]) => !isFree(shown)).map(([candidate]) => candidate)
  }
}

/** The name that an older candidate gets when the first `level` ones are taken. */
function nameAt(candidate: Candidate, level: number): string {
  const length = HEAD_LENGTHS[level]
  const id = identify(candidate)
  // Beyond the whole id only a hash with the name in it can tell two long, cut names apart.
  const head =
    length === undefined ? sha256(`${level}/${candidate.plain}/${id}`) : id.slice(0, length)
  return insertBeforeExtension(candidate.plain, ` (${head})`)
}

/** 64 letters and digits; of an intent's id first its own, so that they lead to it in the outbox. */
function identify(candidate: Candidate): string {
  if (candidate.kind === 'bag') return fileNameOf(candidate.record.bagId)
  const { id } = candidate.intent
  return (id.replace(/[^0-9A-Za-z]/g, '') + sha256(id)).slice(0, 64)
}

function idOf(candidate: Candidate): string {
  return candidate.kind === 'bag' ? `b${candidate.record.bagId}` : `p${candidate.intent.id}`
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}
