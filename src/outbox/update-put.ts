import { DriveError } from '../domain/errors.ts'
import type { PutIntent } from '../intents/intent.ts'
import { ofPut } from '../intents/transitions.ts'
import type { UploaderDeps, UploaderSettings } from './ports.ts'

/** Writes down a step of a put. Answers the put as it is then; rejects `interrupted` for one that was taken back meanwhile. */
export async function updatePut(
  { outbox }: Pick<UploaderDeps, 'outbox'>,
  settings: Pick<UploaderSettings, 'durable'>,
  { id }: PutIntent,
  change: (latest: PutIntent) => PutIntent,
): Promise<PutIntent> {
  const updated = await outbox.update(id, ofPut(change), settings)
  if (updated?.kind !== 'put') throw new DriveError('interrupted', 'The change was taken back.')
  return updated
}
