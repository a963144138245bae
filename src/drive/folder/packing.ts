import { rename, rm } from 'node:fs/promises'
import type { Archive } from '../../folder/archive.ts'
import { measureArchive } from '../../folder/measure.ts'
import type { PlanItem } from '../../folder/plan.ts'
import {
  nodeAt,
  pathOf,
  walkTree,
  type ArchiveNode,
  type DirectoryNode,
} from '../../folder/tree.ts'
import { writeArchive } from '../../folder/write.ts'
import { classifyName } from '../save-steps.ts'
import type { Folder } from './folder.ts'
import { GrowingZip } from './growing-zip.ts'
import { measureStraight, type StraightZip } from './straight-zip.ts'
import type { ArchivedContent, LocalContent } from './item-content.ts'
import { closedContent, itemsOf, type DirectoryItem, type FileItem, type Item } from './items.ts'

/** A zip that was packed. */
export interface PackedZip {
  readonly length: number
  readonly sha256: string
  /** Of a zip that is not kept on this machine. */
  readonly pieces?: StraightZip['pieces']
}

/** What went into a zip, so that the tree can be led to it once the service has it. */
export interface Snapshot {
  readonly files: ReadonlyMap<
    FileItem,
    { readonly path: string; readonly content: LocalContent | ArchivedContent }
  >
  /** Directories of the zip of before that nobody had looked into, with their paths. */
  readonly unread: ReadonlyMap<DirectoryNode, string>
}

/** Everything in a folder as it is right now, without a pause in between. */
export function takeSnapshot(folder: Pick<Folder, 'top' | 'archive'>): {
  readonly plan: PlanItem[]
  readonly snapshot: Snapshot
} {
  const plan: PlanItem[] = []
  const files = new Map<FileItem, { path: string; content: LocalContent | ArchivedContent }>()
  const unread = new Map<DirectoryNode, string>()
  const visit = (directory: DirectoryItem, path: string): void => {
    if (directory.children === undefined) {
      if (directory.archived !== undefined) unread.set(directory.archived, path)
      // Not as the arguments of one call: there may be more than fit.
      for (const item of archivedPlan(directory.archived, path, folder.archive)) plan.push(item)
      return
    }
    for (const item of directory.children.values()) {
      const place = path === '' ? item.name : `${path}/${item.name}`
      if (classifyName(item.name) === 'junk') continue
      const content = item.type === 'file' ? closedContent(item) : undefined
      const planned = planOf(item, place, content)
      if (planned === undefined) continue
      plan.push(planned)
      if (item.type === 'file' && content !== undefined) files.set(item, { path: place, content })
      if (item.type === 'directory') visit(item, place)
    }
  }
  visit(folder.top, '')
  return { plan, snapshot: { files, unread } }
}

/** Undefined for a file that was never closed: nobody has said yet that it is whole. */
function planOf(
  item: Item,
  path: string,
  content: LocalContent | ArchivedContent | undefined,
): PlanItem | undefined {
  const { mode, mtimeMs } = item
  if (item.type === 'directory') return { type: 'directory', path, mode, mtimeMs }
  if (item.type === 'symlink') {
    return { type: 'symlink', path, mode, mtimeMs, linkTarget: item.target }
  }
  if (content === undefined) return undefined
  if (content.from === 'archive') {
    const { archive, node } = content
    return { type: 'file', path, mode, mtimeMs, content: { from: 'archive', archive, node } }
  }
  return {
    type: 'file',
    path,
    mode,
    mtimeMs,
    content: { from: 'file', path: content.path, length: content.length },
  }
}

function* archivedPlan(
  top: DirectoryNode | undefined,
  prefix: string,
  archive: Archive | undefined,
): Generator<PlanItem> {
  if (top === undefined || archive === undefined) return
  const skipped = pathOf(top)
  for (const node of walkTree(top)) {
    const inside = skipped === '' ? pathOf(node) : pathOf(node).slice(skipped.length + 1)
    yield archivedItem(node, prefix === '' ? inside : `${prefix}/${inside}`, archive)
  }
}

function archivedItem(node: ArchiveNode, path: string, archive: Archive): PlanItem {
  const { mode, mtimeMs } = node
  return node.type === 'directory'
    ? { type: 'directory', path, mode, mtimeMs }
    : { type: 'file', path, mode, mtimeMs, content: { from: 'archive', archive, node } }
}

export interface PackOptions {
  readonly signal: AbortSignal
  /** Told of a zip whose length is known before it is written, once its file is there. */
  readonly onGrowing?: (zip: GrowingZip) => void
  /** True when this machine has no room for the zip: nothing is written then. */
  readonly isStraight?: boolean
}

/** Writes the zip; whole or not at all. Staged files are pinned by the caller meanwhile. */
export async function pack(
  plan: readonly PlanItem[],
  path: string,
  { signal, onGrowing, isStraight }: PackOptions,
): Promise<PackedZip> {
  if (isStraight === true) return measureStraight(plan, signal)
  const partial = `${path}.partial`
  const bounds = { signal, maxBytes: mostBytes(plan) }
  await rm(partial, { force: true })
  const expected =
    onGrowing !== undefined && isWorthMeasuring(plan)
      ? await measureArchive(plan, signal)
      : undefined
  if (onGrowing === undefined || expected === undefined) {
    return placed(await writeArchive(plan, partial, bounds), partial, path)
  }
  const zip = new GrowingZip(partial, expected)
  let isTold = false
  const onWritten = (bytes: number): void => {
    zip.noteWritten(bytes)
    if (!isTold) onGrowing(zip)
    isTold = true
  }
  try {
    return await placed(await writeArchive(plan, partial, { ...bounds, onWritten }), partial, path)
  } finally {
    zip.noteEnd()
  }
}

/** An honest zip is no longer: entries of a hostile one may share their bytes, and be copied each. */
function mostBytes(plan: readonly PlanItem[]): number {
  const archives = new Set<Archive>()
  let bytes = 0
  for (const item of plan) {
    bytes += ENTRY_BYTES + 3 * Buffer.byteLength(item.path)
    if (item.type !== 'file') continue
    if (item.content.from === 'archive') archives.add(item.content.archive)
    else bytes += item.content.length * (1 + DEFLATE_OVERHEAD)
  }
  for (const { source } of archives) bytes += source.length
  return Math.ceil(bytes)
}

/** What the headers of an entry take at most, beside its name. */
const ENTRY_BYTES = 1024
/** Deflated data can be a little longer than its content. */
const DEFLATE_OVERHEAD = 0.01

async function placed(
  { length, sha256 }: PackedZip,
  partial: string,
  path: string,
): Promise<PackedZip> {
  await rename(partial, path)
  return { length, sha256 }
}

/** From this size on a zip is sent while it is packed. */
const LARGE_BYTES = 8 * 1024 * 1024
/** To measure, files of this machine are read and deflated twice, and each entry is looked at once more. */
const MOST_LOCAL_BYTES = 4 * 1024 * 1024
const MOST_ENTRIES = 20_000

function isWorthMeasuring(plan: readonly PlanItem[]): boolean {
  if (plan.length > MOST_ENTRIES) return false
  let copied = 0
  let local = 0
  for (const item of plan) {
    if (item.type !== 'file') continue
    if (item.content.from === 'file') local += item.content.length
    else copied += item.content.node.entry.compressedSize
  }
  return copied >= LARGE_BYTES && local <= MOST_LOCAL_BYTES
}

/**
 * Leads what has not changed since to its place in the new zip, wherever it was moved meanwhile.
 * Answers content that is of no more use.
 */
export function leadTo(
  folder: Folder,
  snapshot: Snapshot,
  archive: Archive,
): readonly LocalContent[] {
  const unused: LocalContent[] = []
  for (const [item, { path, content }] of snapshot.files) {
    const node = nodeAt(archive.root, path)
    if (node === undefined || node.type === 'directory') continue
    const led: ArchivedContent = { from: 'archive', archive, node }
    if (item.content === content) item.content = led
    else leadBefore(item.content, content, led)
    if (content.from === 'local') unused.push(content)
  }
  for (const item of itemsOf(folder.top)) leadUnread(item, snapshot, archive)
  return unused
}

/** Content that was written anew since is stored as `led` until it is closed. */
function leadBefore(
  written: LocalContent | ArchivedContent,
  content: LocalContent | ArchivedContent,
  led: ArchivedContent,
): void {
  for (let at = written; at.from === 'local' && at.before !== undefined; at = at.before) {
    if (at.before !== content) continue
    at.before = led
    return
  }
}

/** Leads what was not looked into when the snapshot was taken; it may have been since. */
function leadUnread(item: Item, { unread }: Snapshot, archive: Archive): void {
  if (item.type === 'symlink') return
  const before = item.type === 'directory' ? item.archived : archivedNode(item)
  const path = before === undefined ? undefined : placeOf(before, unread)
  const node = path === undefined ? undefined : nodeAt(archive.root, path)
  if (node === undefined) return
  if (item.type === 'directory') {
    if (node.type === 'directory') item.archived = node
  } else if (node.type !== 'directory') {
    const led: ArchivedContent = { from: 'archive', archive, node }
    const stored = closedContent(item)
    if (item.content.from === 'archive') item.content = led
    else if (stored !== undefined) leadBefore(item.content, stored, led)
  }
}

function archivedNode(item: FileItem): ArchiveNode | undefined {
  const content = closedContent(item)
  return content?.from === 'archive' ? content.node : undefined
}

/** The new path of a node of the zip of before that was in one of these directories. */
function placeOf(
  node: ArchiveNode,
  directories: ReadonlyMap<DirectoryNode, string>,
): string | undefined {
  const names: string[] = []
  for (let at: ArchiveNode | undefined = node; at !== undefined; at = at.parent) {
    const path = at.type === 'directory' ? directories.get(at) : undefined
    if (path !== undefined) return [path, ...names].join('/')
    names.unshift(at.name)
  }
  return undefined
}

/** Files that have content which no zip can be made of yet: it was not closed since it was written. */
export function unclosedOf(folder: Pick<Folder, 'top'>): readonly UnclosedFile[] {
  const found: UnclosedFile[] = []
  for (const item of itemsOf(folder.top)) {
    if (item.type !== 'file' || item.content.from !== 'local') continue
    const { content } = item
    if (content.isWritten) found.push({ item, content })
  }
  return found
}

interface UnclosedFile {
  readonly item: FileItem
  readonly content: LocalContent
}

/** Takes content out that is of this machine only: its place goes when all else is stored. */
export function dropLocal(folder: Folder): void {
  for (const item of itemsOf(folder.top)) {
    if (item.type !== 'file' || item.content.from !== 'local') continue
    item.content.room.giveBack()
    item.parent?.children?.delete(item.name)
    item.parent = undefined
    folder.forget(item)
  }
}
