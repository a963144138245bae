import { systemErrorCode } from '../domain/errors.ts'

/** The innermost `LEVEL_...` code of an error of classic-level: why, and not only that, it failed. */
export function findLevelCode(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined
  const inner = findLevelCode(error.cause)
  if (inner !== undefined) return inner
  const code = systemErrorCode(error)
  return code?.startsWith('LEVEL_') === true ? code : undefined
}
