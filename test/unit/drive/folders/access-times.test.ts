import { describe, expect, it } from 'vitest'
import { silentLogger } from '../../../../src/domain/logger.ts'
import type { NodeId } from '../../../../src/domain/ids.ts'
import { AccessTimes } from '../../../../src/drive/folders/access-times.ts'
import { Children, type DirectoryItem, type Item } from '../../../../src/drive/folders/items.ts'
import { Accesses } from '../../../../src/drive/tree/accesses.ts'
import { openAccessTimes } from '../../../../src/state/access-times-store.ts'
import { ManualClock } from '../../namespace/manual-clock.ts'
import { useTempDir } from '../../state/temp-dir.ts'

const state = useTempDir()

/** A folder with as many empty directories. */
function folderOf(count: number): DirectoryItem {
  const base = { id: 1 as NodeId, name: '', mode: 0o755, mtimeMs: 1000 }
  const empty = { type: 'directory', archived: undefined } as const
  const top: DirectoryItem = { ...base, ...empty, parent: undefined, children: new Children() }
  for (let each = 0; each < count; each += 1) {
    const name = String(each)
    top.children?.set(name, { ...base, ...empty, parent: top, name, children: undefined })
  }
  return top
}

async function open(top: DirectoryItem) {
  const log = silentLogger
  const accesses = new Accesses({ clock: new ManualClock(), log }, { readOnly: false })
  const accessTimes = await openAccessTimes({ log }, { dir: state.path })
  const times = new AccessTimes({ accesses, accessTimes, top, name: () => 'F' })
  const end = async (): Promise<void> => {
    times.end()
    await accesses.keepAll()
    await accessTimes.close()
  }
  return { accessTimes, times, end }
}

function itemsIn(top: DirectoryItem): readonly Item[] {
  return [...(top.children?.values() ?? [])]
}

describe('times of the last read in a folder', () => {
  it('are kept of the files that were read last, and of no more than 4,096', async () => {
    const top = folderOf(4100)
    const { times, end } = await open(top)
    times.begin()
    for (const item of itemsIn(top)) times.note(item, 2000)
    const [first, second] = itemsIn(top)
    if (first !== undefined) times.note(first, 3000)
    await end()
    const again = folderOf(4100)
    const next = await open(again)
    next.times.begin()
    expect(itemsIn(again).filter(({ readAtMs }) => readAtMs !== undefined)).toHaveLength(4096)
    expect(again.children?.get('0')?.readAtMs).toBe(3000)
    expect(second?.name).toBe('1')
    expect(again.children?.get('1')?.readAtMs).toBeUndefined()
    await next.end()
  })

  it('are not those of a version that is shown no more, whose files are still read', async () => {
    const top = folderOf(2)
    const [one, other] = itemsIn(top)
    if (one === undefined || other === undefined) throw new Error('There are two.')
    const { times, end, accessTimes } = await open(top)
    times.begin()
    times.note(one, 2000)
    times.end()
    const kept = [{ path: '0', atimeMs: 2000 }]
    expect(accessTimes.of('F')).toEqual(kept)
    times.note(other, 3000)
    await end()
    expect(accessTimes.of('F')).toEqual(kept)
  })
})
