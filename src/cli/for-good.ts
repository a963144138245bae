import { DriveError } from '../domain/errors.ts'
import type { Output } from './output.ts'
import { Prompt } from './prompt.ts'

/** What `--yes` does, for the help of a command that removes something for good. */
export const YES_HELP = 'do not ask: it is gone for good then'

interface ForGood {
  /** True when the person has said so on the command line. */
  readonly isSaid: boolean
  /** Asked at a terminal, such as "Discard 2 changes for good?". */
  readonly question: string
  /** The sentence of the refusal where no person can be asked, and what keeps a copy. */
  readonly words: string
  readonly instead: string
}

/** True when what cannot come back may be removed. Throws `usage` where no person can be asked and none has said so. */
export async function mayRemoveForGood(
  output: Output,
  { isSaid, question, words, instead }: ForGood,
): Promise<boolean> {
  if (isSaid) return true
  const prompt = Prompt.open(output)
  if (prompt === undefined) {
    throw new DriveError('usage', words, { hint: `Add --yes to do it; ${instead}` })
  }
  try {
    if (await prompt.confirm(question, { usual: false })) return true
    output.note('Nothing was changed.')
    return false
  } finally {
    prompt.close()
  }
}
