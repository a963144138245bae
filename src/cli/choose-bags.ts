import { DriveError } from '../domain/errors.ts'
import { toBagId } from '../domain/ids.ts'
import type { BagId } from '../domain/ids.ts'
import type { BagRecord } from '../domain/record.ts'

/** What a person meant by an ID or a NAME. */
export type Chosen =
  /** A bag id; its record is undefined when the listing does not have it. */
  | { readonly by: 'id'; readonly bagId: BagId; readonly record: BagRecord | undefined }
  /** A name, with its records: the newest first, at least one. */
  | { readonly by: 'name'; readonly records: readonly [BagRecord, ...BagRecord[]] }

const LOOKS_LIKE_AN_ID = /^[0-9a-f]{64}$/i

/**
 * Finds bags by id, else by name. A text that looks like an id is taken for one although the listing
 * does not have it, because imported bags may not be listed. With `orZip` the name of a folder
 * finds it where the service lists it as NAME.zip. Rejects with `not-found`.
 */
export function chooseBags(
  listing: readonly BagRecord[],
  text: string,
  { orZip }: { readonly orZip: boolean } = { orZip: false },
): Chosen {
  const record = listing.find(({ bagId }) => bagId === text)
  if (record !== undefined) return { by: 'id', bagId: record.bagId, record }
  const [newest, ...older] = listing
    .filter(({ name }) => name === text)
    .sort((a, b) => b.uploadedAtMs - a.uploadedAtMs)
  if (newest !== undefined) return { by: 'name', records: [newest, ...older] }
  const zip = `${text}.zip`
  if (orZip && listing.some(({ name }) => name === zip)) return chooseBags(listing, zip)
  if (LOOKS_LIKE_AN_ID.test(text)) return { by: 'id', bagId: toBagId(text), record: undefined }
  throw new DriveError('not-found', `The account has no bag "${text}".`, {
    hint: 'bagfs ls shows names and bag ids.',
  })
}
