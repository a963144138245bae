import { appendFile, mkdtemp, rename, rm, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { readLog } from '../../../src/cli/read-log.ts'

let dir: string
let path: string
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'bagfs-log-'))
  path = join(dir, 'drive.log')
})
afterEach(() => rm(dir, { recursive: true }))

/** What is read while each step is done in a pause, until no step is left. */
async function followed(steps: readonly (() => Promise<unknown>)[]): Promise<string> {
  const left = [...steps]
  const enough = new Error('No step is left.')
  const blocks: Buffer[] = []
  try {
    for await (const block of readLog(path, async () => {
      const step = left.shift()
      if (step === undefined) throw enough
      await step()
    })) {
      blocks.push(block)
    }
  } catch (error) {
    if (error !== enough) throw error
  }
  return Buffer.concat(blocks).toString()
}

it('ends at the end of the log, however long it is', async () => {
  const content = 'a line of the log\n'.repeat(20_000)
  await writeFile(path, content)
  const blocks: Buffer[] = []
  for await (const block of readLog(path)) blocks.push(block)
  expect(Buffer.concat(blocks).toString()).toBe(content)
})

it('goes on with what is added', async () => {
  await writeFile(path, 'one\n')
  const steps = [
    () => appendFile(path, 'two\n'),
    () => Promise.resolve(),
    () => appendFile(path, 'three\n'),
  ]
  expect(await followed([...steps, () => Promise.resolve()])).toBe('one\ntwo\nthree\n')
})

it('goes over to the log of the next mount, when all of the old one was told', async () => {
  await writeFile(path, 'old\n')
  const put = [
    async () => {
      await appendFile(path, 'last\n')
      await rename(path, `${path}.old`)
      await writeFile(path, 'new\n')
    },
    () => Promise.resolve(),
    () => Promise.resolve(),
  ]
  expect(await followed(put)).toBe('old\nlast\nnew\n')
})

it('begins anew with a log that is emptied', async () => {
  await writeFile(path, 'a long first line\n')
  const steps = [
    async () => {
      await truncate(path)
      await appendFile(path, 'again\n')
    },
    () => Promise.resolve(),
  ]
  expect(await followed(steps)).toBe('a long first line\nagain\n')
})
