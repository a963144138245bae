import type { Account } from '../domain/record.ts'
import type { UploaderSettings } from '../outbox/ports.ts'

/** How a drive behaves. */
export interface DriveSettings {
  /** True: close answers when the outbox has the content. False: when the service has it. */
  readonly writeBack: boolean
  readonly readOnly: boolean
  /** The account as the service told it just now; undefined when it did not. */
  readonly account?: Account
  /** Description of new files. */
  readonly description: string
  /** Permission bits that are taken away from every mode that is given or set here, such as 0o022. */
  readonly umask: number
  /** How long a name that is a step of a save is held back, in milliseconds. */
  readonly holdMs: number
  /** How long a folder rests before its changes are packed and sent, in milliseconds. */
  readonly folderRestMs: number
  /** How long the listing may disagree with what the service confirmed before it is believed, in milliseconds. */
  readonly listingLagMs: number
  /** How long it usually does at most, in milliseconds. */
  readonly usualLagMs: number
  /** How many folders are kept open that nothing waits in, and for how long at least since a program used them. */
  readonly idleFolders: { readonly count: number; readonly keptMs: number }
  /** When pins ask for a new listing at the latest, and how long a name that was taken away here may come back, in milliseconds. */
  readonly pins: { readonly followMs: number; readonly forgetMs: number }
  readonly uploads: Omit<UploaderSettings, 'listingLagMs' | 'durable'>
}

/** Permission bits of a file or a directory that has none of its own. */
export function usualMode(isDirectory: boolean, { umask }: Pick<DriveSettings, 'umask'>): number {
  return (isDirectory ? 0o777 : 0o666) & ~umask
}
