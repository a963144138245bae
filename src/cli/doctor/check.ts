import { toFailure } from '../errors.ts'

/** One line of what the doctor says. */
export interface Check {
  readonly name: string
  readonly state: 'ok' | 'warning' | 'failure'
  readonly says: string
  /** What to do, with the command; always there for a failure that the machine itself can mend. */
  readonly mend?: string
}

/** What a look found: only words where all is well. */
export type Finding = string | Omit<Check, 'name'>

/** A look that rejects is a failure, in the words that any command has for the error. */
export async function runCheck(name: string, look: () => Promise<Finding>): Promise<Check> {
  try {
    const found = await look()
    return { name, ...(typeof found === 'string' ? { state: 'ok', says: found } : found) }
  } catch (error) {
    return failed(name, error)
  }
}

export function failed(name: string, error: unknown): Check {
  const { text } = toFailure(error)
  const [says = '', ...rest] = text.replace(/^bagfs: /, '').split('\n')
  const mend = rest.map((line) => line.trim()).join('\n')
  return { name, state: 'failure', says, ...(mend === '' ? {} : { mend }) }
}
