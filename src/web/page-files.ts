import { readFile } from 'node:fs/promises'
import { join } from 'node:path'

/** A file of the page, as it is served. */
export interface PageFile {
  readonly type: string
  readonly content: Buffer
}

/** By their paths in URLs. */
export type PageFiles = ReadonlyMap<string, PageFile>

const FILES = [
  ['/', 'index.html', 'text/html; charset=utf-8'],
  ['/page.css', 'page.css', 'text/css; charset=utf-8'],
  ['/page.js', 'page.js', 'text/javascript; charset=utf-8'],
  ['/icon.svg', 'icon.svg', 'image/svg+xml'],
] as const

/** Reads the page from where the build puts it, beside the program. */
export async function loadPageFiles(dir: string): Promise<PageFiles> {
  const load = async ([path, name, type]: (typeof FILES)[number]) => {
    return [path, { type, content: await readFile(join(dir, name)) }] as const
  }
  return new Map(await Promise.all(FILES.map(load)))
}
