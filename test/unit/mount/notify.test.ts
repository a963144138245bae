import { expect, it } from 'vitest'
import { Notifier } from '../../../src/mount/notify.ts'
import type { BagId } from '../../../src/domain/ids.ts'
import type { Intent, IntentFailure } from '../../../src/intents/intent.ts'
import type { ShownConflict } from '../../../src/drive/root/conflicts.ts'
import { put } from '../namespace/builders.ts'
import { ManualClock } from '../namespace/manual-clock.ts'

const failure: IntentFailure = {
  code: 'rejected',
  message: 'No.',
  atMs: 1,
  tries: 1,
  waitsForUser: true,
}

/** An outbox whose content a test sets, and what was shown because of it. */
function watch(settings: { writeBack: boolean }) {
  const clock = new ManualClock()
  const shown: string[] = []
  let intents: readonly Intent[] = []
  let changed = (): void => undefined
  const outbox = {
    intents: () => intents,
    onChange: (listener: () => void) => {
      changed = listener
      return () => undefined
    },
  }
  const show = (title: string, body: string): void => {
    shown.push(`${title}: ${body}`)
  }
  let conflict: (conflict: ShownConflict) => void = () => undefined
  const conflicts = {
    onConflict: (listener: typeof conflict) => {
      conflict = listener
      return () => undefined
    },
  }
  new Notifier({ outbox, conflicts, clock, show }, settings)
  const set = (...now: readonly Intent[]): void => {
    intents = now
    changed()
  }
  return {
    clock,
    shown,
    set,
    tellOf: (each: ShownConflict): void => {
      conflict(each)
    },
  }
}

it('tells of a file that another machine changed too', () => {
  const { shown, tellOf } = watch({ writeBack: false })
  tellOf({ name: 'log', other: 'log (1a2b3c4d)', bagId: '1a2b3c4d' as BagId, atMs: 0 })
  expect(shown).toEqual([
    'Changed on two machines: log was changed on another machine; that version is log (1a2b3c4d)',
  ])
})

it('tells once of a failure that waits for the person when close waits for the disk only', () => {
  const { shown, set } = watch({ writeBack: true })
  set(put(1, 'a.txt', { failure }))
  set(put(1, 'a.txt', { failure }))
  expect(shown).toEqual(['Not stored: a.txt: failed: No (waits for you)'])
})

it('leaves it to close where close waits, but not a later try', () => {
  const { shown, set } = watch({ writeBack: false })
  set(put(1, 'a.txt', { failure }))
  expect(shown).toEqual([])
  set(put(2, 'b.txt', { failure: { ...failure, tries: 3 } }))
  expect(shown).toHaveLength(1)
})

it('says nothing of what passes by itself, but of a token that is not taken any more', () => {
  const { shown, set } = watch({ writeBack: true })
  set(put(1, 'a.txt', { failure: { ...failure, code: 'unavailable', waitsForUser: false } }))
  expect(shown).toEqual([])
  set(put(1, 'a.txt', { failure: { ...failure, code: 'unauthorized', waitsForUser: false } }))
  expect(shown).toHaveLength(1)
})

it('shows one notification a minute, with all that came in between', () => {
  const { clock, shown, set } = watch({ writeBack: true })
  const all = [1, 2, 3].map((number) => put(number, `${number}.txt`, { failure }))
  set(...all.slice(0, 1))
  set(...all.slice(0, 2))
  set(...all)
  clock.move(59_000)
  expect(shown).toHaveLength(1)
  clock.move(1_000)
  expect(shown[1]).toContain('Not stored: 2.txt (and 1 more)')
  clock.move(120_000)
  expect(shown).toHaveLength(2)
})
