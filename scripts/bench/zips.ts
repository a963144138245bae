import { randomFillSync } from 'node:crypto'
import { mkdirSync, rmSync } from 'node:fs'
import { open, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { makeFile } from './files.ts'
import { runIn } from './processes.ts'

/** Info-ZIP's levels: as it is, or deflated as programs do by default. */
type Level = 'stored' | 'deflated'

const MANY_PER_DIRECTORY = 100
const WORDS = 4096
const BLOCK = 2 ** 20
/** Far more than deflate looks back (32 KiB), so that a piece that comes again saves nothing. */
const POOL = 16 * BLOCK

/** A zip of many small files, each a line of text, in directories of 100 (`directory 007/file 000712.txt`). */
export async function makeZipOfMany(
  directory: string,
  name: string,
  count: number,
): Promise<string> {
  return zipped(directory, name, 'deflated', async (tree) => {
    for (let number = 0; number < count; number += 1) {
      const path = join(tree, smallFile(number))
      if (number % MANY_PER_DIRECTORY === 0) mkdirSync(join(path, '..'), { recursive: true })
      await writeFile(path, `${number} is the number of this file.\n`)
    }
  })
}

/** Where `makeZipOfMany` puts a file. */
export function smallFile(number: number): string {
  const directory = Math.floor(number / MANY_PER_DIRECTORY)
  return `directory ${pad(directory, 4)}/file ${pad(number, 6)}.txt`
}

/** A zip with `big.bin` of `size` bytes: random ones when stored, text of random words when deflated. */
export async function makeZipOfBig(
  directory: string,
  name: string,
  size: number,
  level: Level,
): Promise<string> {
  return zipped(directory, name, level, async (tree) => {
    if (level === 'stored') await makeFile(tree, 'big.bin', size)
    else await makeText(join(tree, 'big.bin'), size)
  })
}

/** A stored zip of `count` random files (`part 000.bin`) of `size` bytes, and 100 of 1 KB (`small 000.txt`). */
export async function makeZipOfParts(
  directory: string,
  name: string,
  count: number,
  size: number,
): Promise<string> {
  return zipped(directory, name, 'stored', async (tree) => {
    for (let number = 0; number < count; number += 1) {
      await makeFile(tree, `part ${pad(number, 3)}.bin`, size)
    }
    for (let number = 0; number < 100; number += 1) {
      await makeFile(tree, `small ${pad(number, 3)}.txt`, 1000)
    }
  })
}

async function zipped(
  directory: string,
  name: string,
  level: Level,
  fill: (tree: string) => Promise<void>,
): Promise<string> {
  const tree = join(directory, `${name}.tree`)
  const path = join(directory, `${name}.zip`)
  mkdirSync(tree)
  try {
    await fill(tree)
    await runIn(tree, 'zip', ['-q', '-r', ...(level === 'stored' ? ['-0'] : []), path, '.'])
  } finally {
    rmSync(tree, { recursive: true })
  }
  return path
}

async function makeText(path: string, size: number): Promise<void> {
  const pool = textOf(POOL)
  const file = await open(path, 'w')
  try {
    const starts = randomFillSync(new Uint32Array(Math.ceil(size / BLOCK)))
    let left = size
    for (const start of starts) {
      const at = start % (POOL - BLOCK)
      const { bytesWritten } = await file.write(pool, at, Math.min(left, BLOCK))
      left -= bytesWritten
    }
  } finally {
    await file.close()
  }
}

/** Words drawn from 4,096 of 2 to 9 letters: deflate halves it and a bit more. */
function textOf(size: number): Buffer {
  const letters = randomFillSync(Buffer.alloc(WORDS * 9))
  const words = Array.from({ length: WORDS }, (_, index) => {
    const length = 2 + ((letters[index * 9] ?? 0) % 8)
    return Buffer.from(letters.subarray(index * 9, index * 9 + length).map((it) => 97 + (it % 26)))
  })
  const text = Buffer.alloc(size, ' ')
  const draws = randomFillSync(new Uint16Array(size / 2))
  let at = 0
  for (const draw of draws) {
    at += (words[draw % WORDS]?.copy(text, at) ?? 0) + 1
    if (at >= size) break
  }
  return text
}

function pad(number: number, digits: number): string {
  return String(number).padStart(digits, '0')
}
