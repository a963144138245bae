import type { RunningDrive } from '../control/registry.ts'
import { readProcessStat } from '../disk/process-stat.ts'
import { DriveError } from '../domain/errors.ts'
import { shellQuote } from '../domain/shell-quote.ts'
import { describeProfile } from '../mount/status-words.ts'

/** Why a drive does not answer, and what to do. */
interface HungReason {
  readonly is: string
  readonly toDo: string
}

async function explainHang({ mountpoint, pid }: RunningDrive): Promise<HungReason> {
  const drive = shellQuote(mountpoint)
  const takeAway = `bagfs umount --now ${drive} takes it away, and what is not sent is kept`
  const stat = await readProcessStat(pid)
  if (stat?.isStopped === true) {
    return {
      is: `its process ${pid} is stopped`,
      toDo: `kill -CONT ${pid} lets it go on; ${takeAway}`,
    }
  }
  return {
    is: `its process ${pid} does not answer`,
    toDo: `bagfs log ${drive} may tell why; ${takeAway}`,
  }
}

/** As `bagfs status` tells of a drive that answers. */
export async function describeHung(drive: RunningDrive): Promise<string> {
  const { is, toDo } = await explainHang(drive)
  return [
    `Drive:    ${drive.mountpoint} (${is})`,
    ...describeProfile(drive.profile),
    `To do:    ${toDo}`,
  ].join('\n')
}

/** For commands that need its answer. */
export async function hangs(drive: RunningDrive, cause: unknown): Promise<DriveError> {
  const { is, toDo } = await explainHang(drive)
  const hint = `${toDo}.`
  return new DriveError('timed-out', `The drive at ${drive.mountpoint} hangs: ${is}.`, {
    cause,
    hint,
  })
}
