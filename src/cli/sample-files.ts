import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { crc32, deflateSync } from 'node:zlib'

/** What `npm start` puts into its drive, as paths in the directory where it was written. */
export interface SampleFiles {
  readonly files: readonly string[]
  readonly folders: readonly string[]
}

const WELCOME = `Welcome to your drive.

Everything here is kept by a file storage service; for this trial it runs on your own machine.
Edit this file, copy files in, rename them, delete them, with any program you like.
`

const RECIPE = `# Bread

500 g flour, 350 g water, 10 g salt, 3 g yeast. Mix, wait overnight, fold, bake at 240 °C.
`

/** Writes the samples into an existing directory. */
export async function writeSampleFiles(directory: string): Promise<SampleFiles> {
  const files = ['Welcome.txt', 'Picture.png']
  const folder = 'Recipes'
  await writeFile(join(directory, 'Welcome.txt'), WELCOME)
  await writeFile(join(directory, 'Picture.png'), drawPicture(640, 400))
  await mkdir(join(directory, folder, 'Drinks'), { recursive: true })
  await writeFile(join(directory, folder, 'Bread.md'), RECIPE)
  await writeFile(
    join(directory, folder, 'Drinks', 'Tea.md'),
    '# Tea\n\nHot water, tea, patience.\n',
  )
  return { files, folders: [folder] }
}

/** A sunset of `width` times `height` pixels, as PNG (RGB, 8 bits). */
function drawPicture(width: number, height: number): Buffer {
  const row = 1 + width * 3
  const pixels = Buffer.alloc(row * height)
  const sun = { x: width / 2, y: height * 0.6, radius: height / 5 }
  for (let y = 0; y < height; y += 1) {
    for (let x = 0; x < width; x += 1) {
      const isSun = Math.hypot(x - sun.x, y - sun.y) < sun.radius && y < height * 0.66
      const colour = isSun ? [255, 214, 90] : skyColour(y / height)
      pixels.set(colour, y * row + 1 + x * 3)
    }
  }
  return encodePng(width, height, pixels)
}

function skyColour(depth: number): readonly number[] {
  if (depth > 0.66) return [24, 48, 92].map((part) => Math.round(part * (1.5 - depth)))
  return [60 + 190 * depth, 70 + 90 * depth, 150 - 60 * depth].map(Math.round)
}

const PNG_SIGNATURE = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])

function encodePng(width: number, height: number, pixels: Buffer): Buffer {
  const header = Buffer.alloc(13)
  header.writeUInt32BE(width, 0)
  header.writeUInt32BE(height, 4)
  // Eight bits, RGB; the rest of the header is zero: deflate, no interlacing.
  header.set([8, 2], 8)
  return Buffer.concat([
    PNG_SIGNATURE,
    pngChunk('IHDR', header),
    pngChunk('IDAT', deflateSync(pixels)),
    pngChunk('IEND', Buffer.alloc(0)),
  ])
}

function pngChunk(type: string, data: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(type, 'latin1'), data])
  const chunk = Buffer.alloc(body.length + 8)
  chunk.writeUInt32BE(data.length, 0)
  body.copy(chunk, 4)
  chunk.writeUInt32BE(crc32(body), body.length + 4)
  return chunk
}
