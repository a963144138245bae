import { DriveError } from '../domain/errors.ts'
import type { IntentId } from '../domain/ids.ts'
import type { Intent, IntentFailure } from '../intents/intent.ts'
import { isDone } from '../intents/rules.ts'
import type { UploadProgress } from './uploader.ts'
import { percentOf, stateOfIntent } from './words.ts'

/** A change that is not done yet, as people are told of it. */
export interface OutboxItem {
  readonly id: IntentId
  readonly name: string
  readonly kind: Intent['kind']
  readonly phase: Intent['phase']
  /** True for a folder: its content is a zip. */
  readonly isFolder?: boolean
  /** Bytes of its content, where they are known. */
  readonly bytes?: number
  /** In plain words. */
  readonly state: string
  readonly failure?: IntentFailure
  /** When a failed one is tried again. */
  readonly nextTryAtMs?: number
}

/** What a running uploader knows beside the outbox. */
export interface Sending {
  progress(): readonly UploadProgress[]
  nextTryAtMs(id: IntentId): number | undefined
}

/** Everything that the service does not have or has not confirmed, oldest first; of superseded changes only the last. */
export function listItems(intents: readonly Intent[], sending?: Sending): readonly OutboxItem[] {
  const uploads = new Map(sending?.progress().map((upload) => [upload.id, upload]))
  const superseded = new Set(intents.flatMap((intent) => intent.supersedes))
  return intents
    .filter((intent) => !isDone(intent) && !superseded.has(intent.id))
    .map((intent): OutboxItem => {
      const { id, name, kind, phase, failure } = intent
      const upload = uploads.get(id)
      const bytes = kind === 'put' ? intent.content.length : undefined
      const nextTryAtMs = failure?.waitsForUser === true ? undefined : sending?.nextTryAtMs(id)
      return {
        id,
        name,
        kind,
        phase,
        ...(kind === 'put' && intent.isFolder === true ? { isFolder: true } : {}),
        ...(bytes === undefined ? {} : { bytes }),
        state: stateOfIntent(intent, upload && percentOf(upload)),
        ...(failure === undefined ? {} : { failure }),
        ...(nextTryAtMs === undefined ? {} : { nextTryAtMs }),
      }
    })
}

/** The items that a person means by ids or names; rejects `not-found` for what is none. */
export function chooseItems(
  items: readonly OutboxItem[],
  wanted: readonly string[],
): readonly OutboxItem[] {
  const chosen = wanted.flatMap((each) => {
    const found = items.filter(({ id, name }) => id === each || name === each)
    if (found.length === 0) {
      throw new DriveError('not-found', `The outbox has nothing called ${JSON.stringify(each)}.`, {
        hint: 'bagfs outbox list tells what it has.',
      })
    }
    return found
  })
  return [...new Set(chosen)]
}
