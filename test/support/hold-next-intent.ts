import { deferred } from '../../src/domain/deferred.ts'
import type { DriveInProcess } from './drive-in-process.ts'

/** Holds the next intent back in the moment in which it is written down. */
export function holdNextIntent({ outbox }: DriveInProcess): {
  readonly reached: Promise<void>
  readonly letGo: () => void
} {
  const reached = deferred()
  const mayGo = deferred()
  const add = outbox.add.bind(outbox)
  outbox.add = async (...intent) => {
    outbox.add = add
    reached.resolve()
    await mayGo.promise
    await add(...intent)
  }
  return { reached: reached.promise, letGo: mayGo.resolve }
}
