import { DriveError } from '../domain/errors.ts'

/** Where a test wants the process to be killed: at the `passing`-th time that `step` is passed. */
export interface CrashPoint {
  readonly step: string
  readonly passing: number
}

const FORMAT = /^(?<step>[a-z]+\.[a-z]+)(?::(?<passing>[1-9]\d{0,5}))?$/

/**
 * Reads `BAGFS_CRASH_AT=<step>[:<n>]` (steps: src/outbox/steps.ts), which only tests set. A step
 * that does not exist kills nothing. Throws `usage` for what is no crash point.
 */
export function readCrashPoint(
  variables: Readonly<Record<string, string | undefined>> = process.env,
): CrashPoint | undefined {
  const text = variables['BAGFS_CRASH_AT']?.trim() ?? ''
  if (text === '') return undefined
  const { step, passing = '1' } = FORMAT.exec(text)?.groups ?? {}
  if (step === undefined) {
    throw new DriveError(
      'usage',
      `BAGFS_CRASH_AT=${text} is no crash point, such as add.written:2.`,
    )
  }
  return { step, passing: Number(passing) }
}
