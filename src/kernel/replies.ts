import { DriveError, isDriveError, type DriveErrorCode } from '../domain/errors.ts'
import type { Logger } from '../domain/logger.ts'
import type { BusyPoll } from './busy-poll.ts'
import { toErrno } from './errno.ts'

/** Answers that programs meet every day: not worth a line in the log. */
const EVERYDAY: ReadonlySet<DriveErrorCode> = new Set([
  'not-found',
  'exists',
  'not-a-directory',
  'is-a-directory',
  'not-empty',
  'no-attribute',
  'unsupported',
  'bad-name',
  'bad-encoding',
  'name-too-long',
  'invalid',
  'read-only',
  'not-permitted',
  'cross-device',
])

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
    const fields = { operation, path }
    if (!(error instanceof DriveError)) {
      const stack = error instanceof Error ? error.stack : String(error)
      this.#log.error({ ...fields, stack }, 'A bug: please report this.')
    } else if (isEveryday(error)) {
      this.#log.debug({ ...fields, code: error.code }, error.message)
    } else {
      this.#log.warn({ ...fields, code: error.code }, error.message)
    }
    return -toErrno(error)
  }
}

function isEveryday(error: DriveError): boolean {
  // The kernel looks again then (file-operations.ts), and the program meets what it finds.
  const isVanished = error.code === 'stale' && isDriveError(error.cause, 'not-found')
  return EVERYDAY.has(error.code) || isVanished
}
