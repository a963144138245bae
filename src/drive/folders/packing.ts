import { rename, rm } from 'node:fs/promises'
import { keptOf } from '../../domain/attributes.ts'
import type { Archive } from '../../zip/archive.ts'
import type { PlanItem } from '../../zip/plan.ts'
import { nodeAt, pathOf, walkTree, type ArchiveNode, type DirectoryNode } from '../../zip/tree.ts'
import { writeArchive } from '../../zip/write.ts'
import type { PackedFolder, PackOptions } from '../../outbox/ports.ts'
import type { Folder } from './folder.ts'
import { measureStraight } from './straight-zip.ts'
import type { ArchivedContent, LocalContent } from './item-content.ts'
import {
  closedContent,
  isSpecial,
  itemsOf,
  type DirectoryItem,
  type FileItem,
  type Item,
} from './items.ts'

/** What went into a zip, so that the tree can be rebased to it once the service has it. */
export interface Snapshot {
  readonly files: ReadonlyMap<
    FileItem,
    { readonly path: string; readonly content: LocalContent | ArchivedContent }
  >
  /** Directories of the zip of before that no program had looked into, with their paths. */
  readonly unread: ReadonlyMap<DirectoryNode, string>
}

/** What of it is in files of this machine. */
export function localOf({ files }: Snapshot): readonly LocalContent[] {
  return Array.from(files.values(), ({ content }) => content).filter(
    (content) => content.from === 'local',
  )
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

/** Undefined for a file that was never closed: no program has said yet that it is whole. */
function planOf(
  item: Item,
  path: string,
  content: LocalContent | ArchivedContent | undefined,
): PlanItem | undefined {
  const kept = keptOf(item)
  if (item.type === 'directory') return { type: 'directory', path, ...kept }
  if (item.type === 'symlink') return { type: 'symlink', path, ...kept, linkTarget: item.target }
  if (content === undefined || isSpecial(item)) return undefined
  if (content.from === 'archive') {
    const { archive, node } = content
    return { type: 'file', path, ...kept, content: { from: 'archive', archive, node } }
  }
  return {
    type: 'file',
    path,
    ...kept,
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
  const kept = keptOf(node)
  return node.type === 'directory'
    ? { type: 'directory', path, ...kept }
    : { type: 'file', path, ...kept, content: { from: 'archive', archive, node } }
}

/** Writes the zip; whole or not at all. Staged files are frozen by the caller meanwhile. */
export async function pack(
  plan: readonly PlanItem[],
  path: string,
  { signal, isStraight }: PackOptions,
): Promise<Omit<PackedFolder, 'operations' | 'mtimeMs' | 'ctimeMs'>> {
  if (isStraight === true) return measureStraight(plan, signal)
  const partial = `${path}.partial`
  await rm(partial, { force: true })
  const zip = await writeArchive(plan, partial, { signal, maxBytes: mostBytes(plan) })
  await rename(partial, path)
  return { length: zip.length, sha256: zip.sha256 }
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

/**
 * Gives what has not changed since its place in the new zip, wherever it was moved meanwhile.
 * Answers content that is of no more use, and the paths of what the zip was to have and has not.
 */
export function rebaseTree(
  folder: Folder,
  snapshot: Snapshot,
  archive: Archive,
): { readonly unused: readonly LocalContent[]; readonly leftOut: readonly string[] } {
  const unused: LocalContent[] = []
  const leftOut: string[] = []
  const rebasedOf = new Map<LocalContent | ArchivedContent, ArchivedContent>()
  for (const [item, { path, content }] of snapshot.files) {
    const node = nodeAt(archive.root, path)
    if (node === undefined && content.from === 'archive') {
      leftOut.push(path)
      leaveOut(folder, item, content)
    }
    if (node === undefined || node.type === 'directory') continue
    const rebased: ArchivedContent = { from: 'archive', archive, node }
    rebasedOf.set(content, rebased)
    rebaseFile(item, content, rebased)
    if (content.from === 'local') unused.push(content)
  }
  for (const item of itemsOf(folder.top)) {
    rebaseHandedOn(item, rebasedOf)
    const path = rebaseUnread(folder, item, snapshot, archive)
    if (path !== undefined) leftOut.push(path)
  }
  return { unused, leftOut }
}

/** A file that was renamed over another since is stored with what that had, until it is closed. */
function rebaseHandedOn(
  item: Item,
  rebasedOf: ReadonlyMap<LocalContent | ArchivedContent, ArchivedContent>,
): void {
  if (item.type !== 'file') return
  const stored = closedContent(item)
  const rebased = stored && rebasedOf.get(stored)
  if (stored !== undefined && rebased !== undefined) rebaseFile(item, stored, rebased)
}

/** Takes content out of the tree that the folder was stored without. */
function leaveOut(folder: Folder, item: FileItem, content: ArchivedContent): void {
  if (item.content === content) takeOut(folder, item)
  else replaceBefore(item.content, content, undefined)
}

/** For a folder that has nothing left but what it cannot be stored with. */
export function leaveAllOut(folder: Folder, { files }: Snapshot): void {
  for (const [item, { content }] of files) {
    if (content.from === 'archive') leaveOut(folder, item, content)
  }
}

/** Content that was written anew since is stored as `rebased` until it is closed. */
function replaceBefore(
  written: LocalContent | ArchivedContent,
  content: LocalContent | ArchivedContent,
  rebased: ArchivedContent | undefined,
): void {
  for (let at = written; at.from === 'local' && at.before !== undefined; at = at.before) {
    if (at.before !== content) continue
    at.before = rebased
    return
  }
}

/**
 * Gives what was not looked into when the snapshot was taken; it may have been since. Answers the path of a file
 * that the zip has not.
 */
function rebaseUnread(
  folder: Folder,
  item: Item,
  { unread }: Snapshot,
  archive: Archive,
): string | undefined {
  const stored = item.type === 'file' ? closedContent(item) : undefined
  const before = item.type === 'directory' ? item.archived : nodeOf(stored)
  const path = before === undefined ? undefined : placeOf(before, unread)
  if (path === undefined) return undefined
  const node = nodeAt(archive.root, path)
  if (item.type === 'directory') {
    if (node?.type === 'directory') item.archived = node
    return undefined
  }
  if (item.type !== 'file' || stored?.from !== 'archive') return undefined
  rebaseStored(folder, item, stored, { archive, node })
  return node === undefined ? path : undefined
}

function rebaseStored(
  folder: Folder,
  item: FileItem,
  stored: ArchivedContent,
  { archive, node }: { readonly archive: Archive; readonly node: ArchiveNode | undefined },
): void {
  if (node === undefined) leaveOut(folder, item, stored)
  else if (node.type !== 'directory') rebaseFile(item, stored, { from: 'archive', archive, node })
}

function rebaseFile(
  item: FileItem,
  stored: LocalContent | ArchivedContent,
  rebased: ArchivedContent,
): void {
  if (item.content === stored) item.content = rebased
  else replaceBefore(item.content, stored, rebased)
}

function nodeOf(content: LocalContent | ArchivedContent | undefined): ArchiveNode | undefined {
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

/** True when so many lines of the journal are all of content that no zip can be made of yet. */
export function areAllUnclosed(folder: Pick<Folder, 'top'>, lines: number): boolean {
  const unclosed = unclosedOf(folder)
  // What was closed here before it was written again is a change. All other content has one line or none.
  if (unclosed.some(({ item }) => closedContent(item)?.from === 'local')) return false
  return unclosed.filter(({ content }) => content.journaled).length === lines
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
    takeOut(folder, item)
  }
}

/** A program that has the file open goes on with it, as when it is removed. */
function takeOut(folder: Folder, item: FileItem): void {
  item.parent?.children?.delete(item.name)
  item.parent = undefined
  folder.forget(item)
}
