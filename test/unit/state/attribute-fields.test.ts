import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { readJournal } from '../../../src/drive/folders/journal.ts'
import { parseIntent } from '../../../src/outbox/intent-file.ts'

/** A journal as it was written before owners and all times were kept. */
const OLD_JOURNAL = [
  { op: 'directory', path: 'd', atMs: 1, mode: 0o755 },
  { op: 'symlink', path: 'd/link', atMs: 2, target: 'file' },
  { op: 'file', path: 'd/file', atMs: 3, file: '1', length: 4, mode: 0o644, mtimeMs: 5 },
  { op: 'attributes', path: 'd/file', mode: 0o600, mtimeMs: 6 },
  {
    op: 'tree',
    path: 'e',
    atMs: 7,
    entries: [
      { type: 'directory', path: '', mtimeMs: 8, mode: 0o700 },
      { type: 'symlink', path: 'link', mtimeMs: 9, target: 'file' },
      { type: 'file', path: 'file', mtimeMs: 10, mode: 0o644, file: '2', length: 11 },
    ],
  },
]

it('a journal of an older version is read whole', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'bagfs-journal-'))
  onTestFinished(() => {
    rmSync(dir, { recursive: true })
  })
  const path = join(dir, 'journal.jsonl')
  writeFileSync(path, OLD_JOURNAL.map((line) => `${JSON.stringify(line)}\n`).join(''))
  const { operations, damaged } = await readJournal(path)
  expect(damaged).toHaveLength(0)
  expect(operations).toMatchObject(OLD_JOURNAL)
})

it('an intent of an older version is as if nothing but mode and mtime had been set', () => {
  const old = {
    ...{ version: 1, id: '00000000000000001', kind: 'put', name: 'a', phase: 'waiting' },
    ...{ createdAtMs: 1, replaces: [], supersedes: [], description: '', mode: 0o640, mtimeMs: 2 },
    content: { from: 'staged', length: 0, sha256: '0'.repeat(64) },
  }
  expect(parseIntent(JSON.stringify(old))).toEqual(old)
})
