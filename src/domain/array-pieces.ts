/** A piece is at least so long, unless it is the last, and ends with the first element that says so after that. */
const LEAST_PIECE_BYTES = 16 * 1024
const MOST_PIECE_BYTES = 256 * 1024
const MOST_PIECE_ELEMENTS = 1024
/** One element in so many says so. */
const ENDING_ELEMENTS = 64
/** An element that is longer is read as `null`. */
const MOST_ELEMENT_BYTES = 1024 * 1024
/** Of the text around the array. */
const MOST_OTHER_BYTES = 64 * 1024

const SPACE = 0x20
const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c
const OPEN = 0x5b
const CLOSE = 0x5d
const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d

/**
 * Splits the first array in a JSON text, as its bytes come, into pieces of some elements each. Where a piece
 * ends follows from the elements near it: texts that differ in a few elements have most pieces in common.
 */
export class ArrayPieces {
  #place: 'before' | 'in' | 'after' = 'before'
  readonly #other: Buffer[] = []
  #otherBytes = 0
  /** Of brackets within the element; those in a string do not count. */
  #depth = 0
  #isInString = false
  #isEscaped = false
  /** A sum over the bytes of the element so far. */
  #sum = 0
  #elementBytes = 0
  #isDropping = false
  /** What belongs to the next piece. */
  #pending: Buffer[] = []
  #pendingBytes = 0
  #pieceElements = 0
  #hasPieces = false

  /** Takes the next bytes; answers the pieces that they complete. Throws SyntaxError for what is no such text. */
  push(chunk: Buffer): readonly Buffer[] {
    const pieces: Buffer[] = []
    if (this.#place === 'after') {
      this.#keepOther(chunk)
      return pieces
    }
    let from = this.#place === 'before' ? this.#skipTo(chunk) : 0
    /** What is before it was taken. */
    let taken = from
    while (this.#place === 'in' && from < chunk.length) {
      const at = this.#endOfElement(chunk, from)
      this.#elementBytes += at - from
      if (this.#elementBytes > MOST_ELEMENT_BYTES) {
        this.#drop(chunk.subarray(taken, from), this.#elementBytes - (at - from))
        taken = at
      }
      if (at === chunk.length) break
      const isLast = chunk[at] !== COMMA
      if (isLast || this.#isPieceFull(at - taken)) {
        this.#take(chunk.subarray(taken, at))
        taken = at + 1
        this.#complete(pieces, isLast)
      }
      if (isLast) this.#leave(chunk.subarray(at, at + 1))
      else this.#beginElement()
      from = at + 1
    }
    if (this.#place === 'in') this.#take(chunk.subarray(taken))
    else if (taken > 0) this.#keepOther(chunk.subarray(taken))
    return pieces
  }

  /** Once all bytes were given: the text with an empty array in the place of this one. */
  end(): string {
    if (this.#place !== 'after') throw new SyntaxError('The array has no end.')
    return Buffer.concat(this.#other).toString('utf8')
  }

  /** The place behind the bracket that begins the array. */
  #skipTo(chunk: Buffer): number {
    const open = chunk.indexOf(OPEN)
    const end = open < 0 ? chunk.length : open + 1
    this.#keepOther(chunk.subarray(0, end))
    if (open >= 0) this.#place = 'in'
    return end
  }

  #keepOther(bytes: Buffer): void {
    this.#otherBytes += bytes.length
    if (this.#otherBytes > MOST_OTHER_BYTES) throw new SyntaxError('Too much is beside the array.')
    this.#other.push(Buffer.from(bytes))
  }

  /** The place of the comma or bracket that ends the element, or the end of the chunk. */
  #endOfElement(chunk: Buffer, from: number): number {
    let at = from
    for (;;) {
      if (this.#isInString) at = this.#passString(chunk, at)
      at = this.#passOther(chunk, at)
      if (!this.#isInString || at === chunk.length) return at
    }
  }

  /** The place behind the quote that ends the string, or the end of the chunk. */
  #passString(chunk: Buffer, from: number): number {
    let at = from
    let sum = this.#sum
    while (this.#isInString && at < chunk.length) {
      const byte = chunk[at] ?? 0
      if (this.#isEscaped) this.#isEscaped = false
      else if (byte === BACKSLASH) this.#isEscaped = true
      else if (byte === QUOTE) this.#isInString = false
      sum = (Math.imul(sum, 31) + byte) | 0
      at += 1
    }
    this.#sum = sum
    return at
  }

  /** The place behind the quote that begins a string, of the end of the element, or the end of the chunk. */
  #passOther(chunk: Buffer, from: number): number {
    let at = from
    for (; at < chunk.length && !this.#isInString; at += 1) {
      const byte = chunk[at] ?? 0
      if (byte === QUOTE) this.#isInString = true
      else if (byte === OPEN || byte === OPEN_OBJECT) this.#depth += 1
      else if (byte === COMMA && this.#depth === 0) return at
      else if (byte === CLOSE || byte === CLOSE_OBJECT) {
        if (this.#depth === 0) return at
        this.#depth -= 1
      }
      this.#sum = (Math.imul(this.#sum, 31) + byte) | 0
    }
    return at
  }

  #isPieceFull(moreBytes: number): boolean {
    const bytes = this.#pendingBytes + moreBytes
    if (this.#pieceElements + 1 >= MOST_PIECE_ELEMENTS) return true
    if (bytes < LEAST_PIECE_BYTES) return false
    return (this.#sum >>> 8) % ENDING_ELEMENTS === 0 || bytes >= MOST_PIECE_BYTES
  }

  #take(bytes: Buffer): void {
    if (bytes.length === 0) return
    this.#pending.push(bytes)
    this.#pendingBytes += bytes.length
  }

  /** Puts `null` in the place of the element, of which `pendingBytes` were taken before `bytes`. */
  #drop(bytes: Buffer, pendingBytes: number): void {
    if (this.#isDropping) return
    this.#isDropping = true
    this.#take(bytes)
    const all = Buffer.concat(this.#pending)
    this.#pending = []
    this.#pendingBytes = 0
    this.#take(all.subarray(0, all.length - pendingBytes))
    this.#take(Buffer.from('null'))
  }

  #complete(pieces: Buffer[], isLast: boolean): void {
    const piece = Buffer.concat(this.#pending)
    this.#pending = []
    this.#pendingBytes = 0
    this.#pieceElements = 0
    if (!isBlank(piece)) pieces.push(piece)
    else if (!isLast || this.#hasPieces) throw new SyntaxError('An element is missing.')
    this.#hasPieces = true
  }

  #beginElement(): void {
    this.#pieceElements += 1
    this.#elementBytes = this.#sum = 0
    this.#isDropping = false
  }

  #leave(bracket: Buffer): void {
    if (bracket[0] !== CLOSE) throw new SyntaxError('The array ends with another bracket.')
    this.#place = 'after'
    this.#keepOther(bracket)
  }
}

/** The elements of a piece. Throws SyntaxError when they are not JSON. */
export function parsePiece(piece: Buffer): readonly unknown[] {
  return JSON.parse(`[${piece.toString('utf8')}]`) as unknown[]
}

function isBlank(piece: Buffer): boolean {
  return piece.every((byte) => byte <= SPACE)
}
