import { readProcFileNow } from '../disk/process-stat.ts'

/** A program that asked for something, as far as it can be told. */
export interface AskingProcess {
  readonly pid: number
  /** As the kernel has it, which is cut after 15 bytes. */
  readonly program?: string
}

const PROCESS_OF_THREAD = /^Tgid:\s+(\d+)$/m

/** The process of a thread. One that has ended meanwhile has no name, and the number of its thread. */
export function processOf(thread: number): AskingProcess {
  const status = readProcFileNow(`${thread}/status`)
  const pid = Number(PROCESS_OF_THREAD.exec(status ?? '')?.[1] ?? thread)
  const program = readProcFileNow(`${pid}/comm`)?.trimEnd()
  return { pid, ...(program === undefined ? {} : { program }) }
}
