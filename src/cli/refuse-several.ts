import { DriveError } from '../domain/errors.ts'
import { shellQuote } from '../domain/shell-quote.ts'
import { titleOf, type DrivePlace } from './drive-places.ts'
import { driveWord } from './drive-words.ts'

/** The command that a name was given to. */
interface NamedIn {
  readonly room: 'trash' | 'outbox'
  readonly verb: string
}

/** Throws `usage` where a name means something in more than one place: the person has to say which. */
export function refuseSeveral(
  name: string,
  places: readonly DrivePlace[],
  { room, verb }: NamedIn,
): void {
  if (places.length < 2) return
  const all = places.map(titleOf).join(', ')
  const live = places.find((place) => place.kind === 'live')
  const called = live === undefined ? '' : driveWord({ mountpoint: calledOf(live) })
  const asIn = `as in bagfs ${room} ${verb}${called} ${shellQuote(name)}`
  throw new DriveError('usage', `${name} is in more than one ${room}: ${all}.`, {
    hint: `${live === undefined ? 'Give' : `Name its drive before it, ${asIn}, or give`} its id, which bagfs ${room} list tells.`,
  })
}

function calledOf({ drive }: Extract<DrivePlace, { kind: 'live' }>): string {
  return drive.profile === undefined ? drive.mountpoint : `${drive.profile}:`
}
