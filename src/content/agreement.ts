import type { Download } from '../service/storage-service.ts'
import type { BagFile } from './bag-file.ts'
import { mayBeNoContent } from './belief.ts'

/** Whether the answers that fill one file speak of the same content. */
export class Agreement {
  #isHeld = false
  #etagsDiffer = false

  /** True while what is here may turn out, at its end, to be no content: no reader is given any of it before. */
  get isHeld(): boolean {
    return this.#isHeld
  }

  /** True once two answers had different ETags: they may be of different content, and an ETag tells no more which. */
  get etagsDiffer(): boolean {
    return this.#etagsDiffer
  }

  /** What the head of an answer contradicts in words; undefined when it goes with what is in the file. */
  contradictionOf(head: Download, { total, etag, ranges }: BagFile): string | undefined {
    if (differ(total, head.totalLength)) {
      return `it was ${String(total)} bytes long and is ${String(head.totalLength)}`
    }
    if (!this.#etagsDiffer && differ(strong(etag), strong(head.etag))) {
      // Once. A service whose ETags change with every answer says nothing by them: from now on bytes are compared.
      this.#etagsDiffer = true
      return `its ETag was ${String(etag)} and is ${String(head.etag)}`
    }
    // What may be no content does not mix with what is.
    const isHeld = head.totalLength === undefined && mayBeNoContent(head)
    const isMixed = isHeld !== this.#isHeld && ranges.covered > 0
    this.#isHeld = isHeld
    return isMixed ? 'answers of different kinds came for it' : undefined
  }
}

function differ<Value>(here: Value | undefined, there: Value | undefined): boolean {
  return here !== undefined && there !== undefined && here !== there
}

/** An ETag that stands for the very bytes; a weak one may change while they do not. */
function strong(etag: string | undefined): string | undefined {
  return etag?.startsWith('W/') === true ? undefined : etag
}
