/** Is told of each operation of the drive when it ends. */
export interface OperationWatch {
  /** `error` is the name of the errno that the program sees, such as `ENOENT`; undefined when it succeeded. */
  ended(operation: string, tookMs: number, error: string | undefined): void
  /** Undefined while nothing looks: then no more is found out of an operation than `ended` is told. */
  readonly tracer?: OperationTracer | undefined
}

/** What an operation is about, as far as the kernel tells it. */
export interface OperationSubject {
  /** From the root of the drive, with a slash before it. */
  readonly path?: string | undefined
  /** The path that a rename leads to. */
  readonly to?: string | undefined
  /** Of a read or a write, in bytes. */
  readonly offset?: number | undefined
  /** Bytes that are to be read or written, or the length that a file gets. */
  readonly size?: number | undefined
}

/** An operation that has ended. */
export interface EndedOperation extends OperationSubject {
  readonly operation: string
  readonly tookMs: number
  /** As in `OperationWatch`. */
  readonly error: string | undefined
  /** Bytes that were read or written. */
  readonly bytes?: number | undefined
}

/** Is told of each operation what a person can know of it. */
export interface OperationTracer {
  /**
   * Called as an operation begins, while the program still waits for it. `thread` is the one that asks, where the
   * bridge knows it. What it answers is called when the operation has ended.
   */
  began(thread: number | undefined): (ended: EndedOperation) => void
}
