import { DriveError } from '../domain/errors.ts'
import type { Download } from '../service/storage-service.ts'

/** Of content that must come twice, so many bytes are compared before it is read; all of it before it is copied. */
export const COMPARED_BYTES = 64 * 1024

/** A listed size may count what a service keeps beside the content. An empty body is not in doubt above this, in bytes. */
const MOST_BESIDE_CONTENT = 1024

/** What is known of a bag's content without asking for it; lengths in bytes. */
export interface KnownLengths {
  /** Length of what was uploaded from here: no other content can be the bag's. */
  readonly uploadedLength: number | undefined
  /** Lengths that it may have: those that the listing tells, and one that was believed before. */
  readonly possibleLengths: readonly number[]
}

/** What an answer's head tells of its body. */
export type AnswerHead = Pick<Download, 'totalLength' | 'contentType' | 'isDecoded' | 'isEndTold'>

/**
 * A body is content; or it is in doubt, and must come a second time; or it was cut, as far as is known; or it is
 * something else. That may be an error page of the service, or of a network before it.
 */
type Verdict = 'content' | 'doubtful' | 'cut' | 'other'

/**
 * What counts as a bag's content. A body is believed when it is as long as the listing says or as
 * what we uploaded, or when it came twice the same. JSON and pages must be as long, since an error
 * comes twice the same too. So must what ends with its connection before a length that is known: cuts come twice, too.
 * An empty body says nothing: it is no content of what is listed with more.
 */
export class Belief {
  readonly #known: () => KnownLengths
  #doubted: number | undefined
  #isToComeTwice = false

  constructor(known: () => KnownLengths) {
    this.#known = known
  }

  /** A length that came once and that nothing else tells; undefined when nothing is in doubt. */
  get doubted(): number | undefined {
    return this.#doubted
  }

  /** True when what came may be all of the content, and is believed when it comes the same once more. */
  get isToComeTwice(): boolean {
    return this.#isToComeTwice
  }

  /** True for a length that the content is known to have. */
  isKnown(length: number): boolean {
    return isKnownLength(this.#known(), length)
  }

  /**
   * Looks at a head: true when the body's length is in doubt, which `cameWhole` decides; false when it
   * is believed, or not told. Throws `bad-answer` for what is no content.
   */
  doubts(head: AnswerHead): boolean {
    if (head.totalLength === undefined) return false
    const verdict = this.#judge(head.totalLength, head)
    if (verdict === 'other') throw noContent(head, head.totalLength)
    return verdict === 'doubtful'
  }

  /**
   * A body of that length came, or as much of it as is compared. True when it is believed; false when it
   * has to come once more. Throws `bad-answer` for what is no content.
   */
  cameWhole(length: number, head: AnswerHead): boolean {
    const verdict = this.#judge(length, head)
    if (verdict === 'other') throw noContent(head, length)
    const isTwice = verdict === 'doubtful' && this.#doubted === length
    const isBelieved = verdict === 'content' || isTwice
    this.#doubted = isBelieved ? undefined : length
    this.#isToComeTwice = verdict === 'doubtful' && !isTwice
    return isBelieved
  }

  /** What came is not there any more. */
  forget(): void {
    this.#doubted = undefined
    this.#isToComeTwice = false
  }

  /** The error of content that has to come once more. */
  doubtOf(length: number): DriveError {
    const known = this.#known().possibleLengths.join(' or ')
    const instead = known === '' ? 'nothing else tells its length' : `${known} are known`
    return new DriveError('unavailable', `The content came with ${length} bytes, and ${instead}.`)
  }

  #judge(length: number, head: AnswerHead): Verdict {
    const { uploadedLength, possibleLengths } = this.#known()
    if (uploadedLength !== undefined) return length === uploadedLength ? 'content' : 'other'
    if (possibleLengths.includes(length)) return 'content'
    // What is stored compressed, and labelled so, comes unpacked: twice the same, and wrong.
    if (head.isDecoded && possibleLengths.length > 0) return 'other'
    if (mayBeNoContent(head)) return 'other'
    const longest = Math.max(0, ...possibleLengths)
    if (length === 0 && longest > MOST_BESIDE_CONTENT) return 'other'
    return !head.isEndTold && length < longest ? 'cut' : 'doubtful'
  }
}

/** True for a length of what was uploaded, or of what the listing tells. */
export function isKnownLength(known: KnownLengths, length: number): boolean {
  const { uploadedLength, possibleLengths } = known
  return uploadedLength === undefined ? possibleLengths.includes(length) : length === uploadedLength
}

/** Types that services and proxies say things in. A file name in the head proves nothing: errors can have one. */
export function mayBeNoContent({ contentType }: Pick<AnswerHead, 'contentType'>): boolean {
  const [group, type = ''] = (contentType?.split(';')[0] ?? '').trim().toLowerCase().split('/')
  const isText = group === 'application' || group === 'text'
  return isText && /\b(json|html|xml)$/.test(type)
}

function noContent({ contentType }: AnswerHead, length: number): DriveError {
  const type = contentType === undefined ? '' : ` of type ${contentType}`
  return new DriveError(
    'bad-answer',
    `The service answered ${length} bytes${type} in place of the content.`,
  )
}
