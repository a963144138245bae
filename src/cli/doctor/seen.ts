import { withDefault, type MountFlags } from '../../config/options.ts'
import type { DriveStatus } from '../../control/protocol.ts'
import { formatTime } from '../../mount/format-time.ts'
import type { Check } from './check.ts'

type SeenListing = Pick<DriveStatus['listing'], 'lagMs' | 'folderNames'>

/** What only a drive finds out that stores files: here by what those that run have seen. */
export function checkSeen(statuses: readonly DriveStatus[], options: MountFlags): readonly Check[] {
  const waitMs = withDefault(options, 'listingLag')
  return statuses.flatMap(({ mountpoint, listing }) => {
    const lag = judgeLag(listing, waitMs)
    return [
      { ...lag, name: 'listing lag', says: `${mountpoint}: ${lag.says}` },
      {
        name: 'folder names',
        state: 'ok' as const,
        says: `${mountpoint}: ${describeNames(listing)}`,
      },
    ]
  })
}

/** Exported for its test. */
export function judgeLag({ lagMs }: SeenListing, waitMs: number): Omit<Check, 'name'> {
  if (lagMs === undefined) {
    return { state: 'ok', says: 'not known yet: the first file that is stored tells' }
  }
  if (lagMs === 0) return { state: 'ok', says: 'none: what is stored is listed at once' }
  const seen = `what is stored is listed up to ${formatTime(lagMs)} later`
  if (lagMs < waitMs) return { state: 'ok', says: seen }
  return {
    state: 'warning',
    says: `${seen}, and a lost answer is looked for during ${formatTime(waitMs)} only: what was stored may be sent once more.`,
    mend: `Mount with a longer time: --listing-lag ${Math.ceil((2 * lagMs) / 1000)}s`,
  }
}

function describeNames({ folderNames }: SeenListing): string {
  if (folderNames === undefined) return 'not known yet: the first folder that is stored tells'
  return folderNames === 'plain'
    ? 'the service lists the folder NAME as NAME'
    : 'the service lists the folder NAME as NAME.zip'
}
