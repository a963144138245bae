import { randomFillSync } from 'node:crypto'
import { mkdirSync, rmSync } from 'node:fs'
import { open, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { makeFile } from './files.ts'
import { run } from './processes.ts'

const LINE_BYTES = 64

/** Makes `<name>.zip` of a directory that `fill` fills, with zip's compression `level`; resolves with its path. */
export async function makeZip(
  directory: string,
  name: string,
  level: 0 | 1,
  fill: (directory: string) => Promise<void>,
): Promise<string> {
  const source = join(directory, name)
  const path = join(directory, `${name}.zip`)
  mkdirSync(source)
  await fill(source)
  await run('sh', ['-c', 'cd "$1" && zip -qr "-$2" "$3" .', 'sh', source, String(level), path])
  rmSync(source, { recursive: true })
  return path
}

/** Directories `d000` ... with files `f000.txt` ... of random bytes in each. */
export async function fillWithSmall(
  directory: string,
  { directories, files, size }: { directories: number; files: number; size: number },
): Promise<void> {
  const block = Buffer.allocUnsafe(size)
  for (let outer = 0; outer < directories; outer += 1) {
    const inner = join(directory, numbered('d', outer))
    mkdirSync(inner)
    for (let file = 0; file < files; file += 1) {
      await writeFile(join(inner, `${numbered('f', file)}.txt`), randomFillSync(block))
    }
  }
}

export async function fillWithLarge(
  directory: string,
  { files, size }: { files: number; size: number },
): Promise<void> {
  for (let file = 0; file < files; file += 1) {
    await makeFile(directory, `${numbered('large', file)}.bin`, size)
  }
}

/** Hexadecimal digits at random in lines: deflates to about half. */
export async function fillWithText(directory: string, size: number): Promise<void> {
  const file = await open(join(directory, 'large000.bin'), 'w')
  const random = Buffer.allocUnsafe(2 ** 19)
  try {
    for (let left = size; left > 0;) {
      const text = randomFillSync(random).toString('hex').replaceAll(/.{63}/g, '$&\n')
      const block = Buffer.from(text).subarray(0, Math.min(left, LINE_BYTES * 2 ** 14))
      await file.write(block)
      left -= block.length
    }
  } finally {
    await file.close()
  }
}

function numbered(word: string, number: number): string {
  return word + String(number).padStart(3, '0')
}
