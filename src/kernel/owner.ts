import type { BridgeSettings } from './bridge.ts'

/** chown's "leave as it is". */
const UNCHANGED = 0xffff_ffff

/** True when chown would change nothing: everything in the drive belongs to one user. */
export function isOwner(
  { uid = UNCHANGED, gid = UNCHANGED }: { readonly uid?: number; readonly gid?: number },
  settings: BridgeSettings,
): boolean {
  return [UNCHANGED, settings.uid].includes(uid) && [UNCHANGED, settings.gid].includes(gid)
}
