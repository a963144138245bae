import { PassThrough } from 'node:stream'
import { DriveError } from '../../domain/errors.ts'
import type { PlanItem } from '../../zip/plan.ts'
import { streamArchive } from '../../zip/write.ts'

/** A zip that this machine has no room for: it is made anew each time it is sent. */
export interface StraightZip {
  readonly length: number
  readonly sha256: string
  /** Its bytes. The last of them come only once all are those that were measured; rejects `busy` else. */
  pieces(): AsyncGenerator<Uint8Array>
}

/** Measures the zip of a plan by making it once without keeping it: the same plan gives the same bytes. */
export async function measureStraight(
  plan: readonly PlanItem[],
  signal: AbortSignal,
): Promise<StraightZip> {
  const nowhere = {
    write: (_: Uint8Array, __: number, length: number) => Promise.resolve({ bytesWritten: length }),
  }
  const { length, sha256 } = await streamArchive(plan, nowhere, { signal })
  return { length, sha256, pieces: () => piecesOf(plan, sha256, signal) }
}

async function* piecesOf(
  plan: readonly PlanItem[],
  sha256: string,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const over = new AbortController()
  const pipe = new PassThrough()
  const packing = packInto(pipe, plan, sha256, AbortSignal.any([signal, over.signal]))
  try {
    let held: Uint8Array | undefined
    for await (const piece of pipe as AsyncIterable<Uint8Array>) {
      if (held !== undefined) yield held
      held = piece
    }
    if (held !== undefined) yield held
  } finally {
    over.abort()
    pipe.destroy()
    await packing
  }
}

/** Ends the pipe when the zip is the one that was measured, else destroys it with the reason. Never rejects. */
async function packInto(
  pipe: PassThrough,
  plan: readonly PlanItem[],
  sha256: string,
  signal: AbortSignal,
): Promise<void> {
  const write = (bytes: Uint8Array, offset: number, length: number) =>
    new Promise<{ bytesWritten: number }>((resolve, reject) => {
      // The writer uses its memory again.
      pipe.write(Buffer.from(bytes.subarray(offset, offset + length)), (error) => {
        if (error) reject(error)
        else resolve({ bytesWritten: length })
      })
    })
  try {
    const zip = await streamArchive(plan, { write }, { signal })
    if (zip.sha256 !== sha256) throw new DriveError('busy', 'The folder changed while it was sent.')
    pipe.end()
  } catch (error) {
    pipe.destroy(error instanceof Error ? error : new Error(String(error)))
  }
}
