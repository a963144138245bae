import type { Owner } from '../domain/attributes.ts'
import type { Attributes } from '../drive/tree/attributes.ts'
import type { BridgeSettings } from './bridge.ts'

/** chown's "leave as it is". */
const UNCHANGED = 0xffff_ffff

type Defaults = Pick<BridgeSettings, 'uid' | 'gid'>

/** The owner that is shown. */
export function shownOwner(
  { uid, gid }: Owner,
  settings: Defaults,
): { readonly uid: number; readonly gid: number } {
  return { uid: uid ?? settings.uid, gid: gid ?? settings.gid }
}

/** What chown changes: what is shown already needs no owner of its own. */
export function ownerChanges(asked: Owner, now: Attributes, settings: Defaults): Owner {
  const shown = shownOwner(now, settings)
  return { ...changeOf('uid', asked.uid, shown.uid), ...changeOf('gid', asked.gid, shown.gid) }
}

function changeOf(name: 'uid' | 'gid', asked: number | undefined, shown: number): Owner {
  if (asked === undefined || asked >>> 0 === UNCHANGED || asked === shown) return {}
  return { [name]: asked }
}

/** The owner of what a caller makes: without --allow-other everything is one user's. */
export function ownerOfMade(
  caller: { readonly uid: number; readonly gid: number },
  settings: Defaults & Pick<BridgeSettings, 'allowOther'>,
): Owner {
  if (!settings.allowOther) return {}
  return {
    ...changeOf('uid', caller.uid, settings.uid),
    ...changeOf('gid', caller.gid, settings.gid),
  }
}
