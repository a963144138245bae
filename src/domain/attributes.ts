/** The user and group of something. What is absent is as `--uid` and `--gid` tell it. */
export interface Owner {
  readonly uid?: number | undefined
  readonly gid?: number | undefined
}

/** Values in base64, by name. */
export type ExtendedValues = Readonly<Record<string, string>>

/**
 * What is kept of a file, link or directory beside its name and content. Times are in milliseconds since the epoch, with
 * a fraction: a double has room for microseconds.
 *
 * - Of a file or folder of the root: with its put, then with the facts of its bag. It never leaves this machine.
 * - Of what is in a folder: in the journal, then in the folder's zip; of zips that others packed only permissions and mtime.
 */
export interface KeptAttributes extends Owner {
  /** Permission bits (0o7777). */
  readonly mode: number
  readonly mtimeMs: number
  /** Absent: as `mtimeMs`. */
  readonly atimeMs?: number | undefined
  /** When anything of it last changed. Absent: as `mtimeMs`. */
  readonly ctimeMs?: number | undefined
  /** Extended attributes of programs; they never leave this machine, those of what is in folders neither. */
  readonly extended?: ExtendedValues | undefined
}

/** What is neither file, directory nor link. */
export type SpecialKind = 'fifo' | 'socket' | 'character-device' | 'block-device'

/** A node of this machine, which is never sent: it means something here only. */
export interface SpecialNode {
  readonly kind: SpecialKind
  /** The number of a device, as the kernel has it; 0 for others. */
  readonly device: number
}

/** Changes of attributes; what is absent stays as it is. */
export type AttributeChanges = Partial<KeptAttributes>

/** Nothing but the attributes. */
export function keptOf({
  mode,
  mtimeMs,
  atimeMs,
  ctimeMs,
  uid,
  gid,
  extended,
}: KeptAttributes): KeptAttributes {
  return { mode, mtimeMs, atimeMs, ctimeMs, uid, gid, extended }
}

/** Nothing but the attributes, with all times: atime and ctime are mtime where they were not kept. */
export function withAllTimes(
  kept: KeptAttributes,
): KeptAttributes & { readonly atimeMs: number; readonly ctimeMs: number } {
  const { mode, mtimeMs, atimeMs = mtimeMs, ctimeMs = mtimeMs, uid, gid, extended } = kept
  return { mode, mtimeMs, atimeMs, ctimeMs, uid, gid, extended }
}

/** What leads from attributes to later ones; undefined where they are the same. */
export function changesBetween(
  before: KeptAttributes,
  after: KeptAttributes,
): AttributeChanges | undefined {
  const isSame = (key: keyof KeptAttributes): boolean =>
    JSON.stringify(before[key]) === JSON.stringify(after[key])
  const all = Object.entries(keptOf(after)) as [keyof KeptAttributes, unknown][]
  const changed = all.filter(([key]) => !isSame(key))
  return changed.length === 0 ? undefined : Object.fromEntries(changed)
}

/** The attributes after a change. */
export function withChanges(kept: KeptAttributes, changes: AttributeChanges): KeptAttributes {
  return {
    mode: changes.mode ?? kept.mode,
    mtimeMs: changes.mtimeMs ?? kept.mtimeMs,
    atimeMs:
      changes.atimeMs ?? kept.atimeMs ?? (changes.mtimeMs === undefined ? undefined : kept.mtimeMs),
    ctimeMs: changes.ctimeMs ?? kept.ctimeMs,
    uid: changes.uid ?? kept.uid,
    gid: changes.gid ?? kept.gid,
    extended: changes.extended ?? kept.extended,
  }
}
