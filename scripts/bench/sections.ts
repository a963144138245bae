import { BagfsSubject, type Places } from './bagfs-subject.ts'
import { BareSubject } from './bare-subject.ts'
import { DiskSubject } from './disk-subject.ts'
import type { Machine } from './machine.ts'
import type { Processes } from './processes.ts'
import { RcloneSubject } from './rclone-subject.ts'
import type { SeedFile, Subject } from './subject.ts'
import type { Table } from './table.ts'

/** What a section measures with. */
export interface Context {
  readonly processes: Processes
  readonly places: Places
  readonly machine: Machine
  readonly runs: number
  /** The one subject to measure; all of them when it is not given. */
  readonly only?: string
}

/** A group of figures that share their files. */
export interface Section {
  readonly title: string
  /** The subject whose figures are compared with those of the others comes first. */
  readonly subjects: readonly string[]
  /** Programs that it cannot do without. */
  readonly needs: readonly string[]
  measure(context: Context, table: Table): Promise<void>
}

type Kind =
  | 'bagfs'
  | 'bagfs --write-back'
  | 'bagfs over fuse-native'
  | 'rclone'
  | 'bare bridge'
  | 'plain disk'

/** Calls `work` with each subject in turn, over and over, so that a busy minute harms all alike. */
export async function inTurns(
  context: Context,
  kinds: readonly Kind[],
  files: readonly SeedFile[],
  work: (subject: Subject, round: number) => Promise<void>,
): Promise<void> {
  const subjects: Subject[] = []
  try {
    for (const kind of kinds) {
      if (context.only === undefined || context.only === kind) {
        subjects.push(await startSubject(context, kind, files))
      }
    }
    for (let round = 0; round < context.runs; round += 1) {
      for (const subject of subjects) await work(subject, round)
    }
  } finally {
    for (const subject of subjects) await subject.close()
  }
}

async function startSubject(
  { processes, places }: Context,
  kind: Kind,
  files: readonly SeedFile[],
): Promise<Subject> {
  if (kind === 'rclone') return RcloneSubject.start(processes, places, files)
  if (kind === 'plain disk') return new DiskSubject(places, files)
  if (kind === 'bare bridge') return BareSubject.start(processes, places, files)
  const options = kind === 'bagfs over fuse-native' ? ['--bridge', 'fuse-native'] : []
  const settings = { name: kind, writeBack: kind === 'bagfs --write-back', options }
  return BagfsSubject.start(processes, places, settings, files)
}
