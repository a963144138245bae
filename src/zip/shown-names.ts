import { encodeName, insertBeforeExtension } from '../domain/names.ts'

/** Longest name that Linux takes, in bytes. */
const MAX_NAME_BYTES = 255

/**
 * The name under which a directory shows one part of a path in a zip. What Linux can hold stays as it
 * is, control characters too: a program that made such a file here finds it again. The rest (`..`, NUL,
 * U+FFFD, too long) is coded; a coded name is an ordinary name when the folder is written again.
 */
export function shownName(part: string): string {
  return isLinuxName(part) ? part : encodeName(part)
}

function isLinuxName(name: string): boolean {
  if (name === '' || name === '.' || name === '..' || /[\0\uFFFD]/.test(name)) return false
  return name.length * 3 <= MAX_NAME_BYTES || Buffer.byteLength(name) <= MAX_NAME_BYTES
}

/** Stands for all numbers in the key of a counter: names that are cut alike share one. */
const WIDEST_MARK = ' (9999999)'

/**
 * Finds names for members whose own name another one has: `name (1).ext`, `name (2).ext` ... The counter
 * of each name is kept, so that many of one name take no more time than as many different ones.
 */
export class SpareNames {
  readonly #next = new Map<string, number>()

  /** A name like `name` that `isTaken` denies, at most 255 bytes long. */
  find(name: string, isTaken: (name: string) => boolean): string {
    const key = insertBeforeExtension(name, WIDEST_MARK)
    for (let number = this.#next.get(key) ?? 1; ; number += 1) {
      const candidate = insertBeforeExtension(name, ` (${number})`)
      if (isTaken(candidate)) continue
      this.#next.set(key, number + 1)
      return candidate
    }
  }
}
