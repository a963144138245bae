import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { folderChange, folderLine, folderTree } from './folder-goals.ts'
import { folderBigDeflated, folderBigStored, folderMany } from './folder-peers.ts'
import { lines } from './lines.ts'
import { huge, large, listing } from './listing.ts'
import { Machine } from './machine.ts'
import { isInstalled, Processes } from './processes.ts'
import { reading } from './reading.ts'
import type { Section } from './sections.ts'
import { Table } from './table.ts'
import { writing, writingMany } from './writing.ts'

const FOLDERS = {
  'folder-many': folderMany,
  'folder-stored': folderBigStored,
  'folder-deflated': folderBigDeflated,
  'folder-line': folderLine,
  'folder-change': folderChange,
  'folder-tree': folderTree,
}
/** What can be named; `folders` stands for all parts of it. */
const SECTIONS: Record<string, readonly Section[]> = {
  reading: [reading],
  lines: [lines],
  listing: [listing],
  writing: [writing],
  'writing-many': [writingMany],
  large: [large],
  huge: [huge],
  folders: Object.values(FOLDERS),
  ...Object.fromEntries(Object.entries(FOLDERS).map(([name, part]) => [name, [part]])),
}
const DEFAULT = ['reading', 'lines', 'listing', 'writing', 'large', 'huge', 'folders']

/** Measures the sections that are named, or all, and prints each as a Markdown table. */
async function main(): Promise<void> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { runs: { type: 'string', default: '3' }, only: { type: 'string' } },
  })
  const runs = Number(values.runs)
  if (!Number.isInteger(runs) || runs < 1) throw new Error(`--runs ${values.runs}: not a count.`)
  const sections = (positionals.length > 0 ? positionals : DEFAULT).flatMap((name) => {
    const found = SECTIONS[name]
    if (found === undefined) throw new Error(`There is no section ${name}.`)
    return found
  })
  const needed = new Set(['fusermount', ...sections.flatMap(({ needs }) => needs)])
  const missing = [...needed].filter((program) => !isInstalled(program))
  if (missing.length > 0) throw new Error(`Not installed: ${missing.join(', ')}.`)
  await measure(sections, { runs, ...(values.only === undefined ? {} : { only: values.only }) })
}

async function measure(
  sections: readonly Section[],
  options: { readonly runs: number; readonly only?: string },
): Promise<void> {
  const machine = new Machine()
  const processes = new Processes()
  const places = {
    memory: mkdtempSync('/dev/shm/bagfs-bench-'),
    disk: mkdtempSync(join(tmpdir(), 'bagfs-bench-')),
  }
  const cleanUp = async (): Promise<void> => {
    await processes.close()
    for (const place of [places.memory, places.disk])
      rmSync(place, { recursive: true, force: true })
  }
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => {
      cleanUp()
        .catch((error: unknown) => {
          console.error(error)
        })
        .finally(() => process.exit(1))
    })
  }
  try {
    for (const section of sections) {
      const table = new Table()
      await section.measure({ processes, places, machine, ...options }, table)
      console.log(`### ${section.title}\n\n${table.format(section.subjects)}\n`)
      if (table.remarks.length > 0) console.log(`${table.remarks.join('\n')}\n`)
    }
    console.log(`Medians of ${options.runs} runs. ${machine.describe()}`)
  } finally {
    await cleanUp()
  }
}

await main()
