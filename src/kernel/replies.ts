import type { Logger } from '../domain/logger.ts'
import type { BusyPoll } from './busy-poll.ts'
import { logFailure } from './log-failure.ts'

/** A call of the kernel that must be answered exactly once. */
export interface KernelCall {
  readonly operation: string
  readonly path: string
  /** 0 or a count, or a negative errno. */
  readonly reply: (result: number) => void
}

/** Runs operations for the kernel: each is logged and answered here, so that none can forget it. */
export class Replies {
  readonly #log: Logger
  readonly #busyPoll: BusyPoll

  constructor(log: Logger, busyPoll: BusyPoll) {
    this.#log = log
    this.#busyPoll = busyPoll
  }

  /** Answers with what the task resolves with, or with the errno of its error. */
  value<Value>(
    call: KernelCall,
    task: () => Promise<Value>,
    onValue: (value: Value) => void,
  ): void {
    task()
      .then(onValue)
      .catch((error: unknown) => {
        call.reply(this.failure(call, error))
      })
      .finally(() => {
        this.#busyPoll.touch()
      })
  }

  /** Answers 0 when the task is done. */
  done(call: KernelCall, task: () => Promise<unknown>): void {
    this.value(call, task, () => {
      call.reply(0)
    })
  }

  /** Logs an error and answers its negative errno. */
  failure({ operation, path }: KernelCall, error: unknown): number {
    return -logFailure(this.#log, { operation, path }, error)
  }
}
