#!/usr/bin/env node
import { toFailure } from './cli/errors.ts'
import { Output } from './cli/output.ts'
import { createProgram } from './cli/program.ts'
import { readEnvironment } from './config/env.ts'

/** What still holds the process when its work is done does so for no longer. */
const LONGEST_END_MS = 10_000

const output = new Output({ stdout: process.stdout, stderr: process.stderr })
try {
  await createProgram({ output, environment: readEnvironment() }).parseAsync()
} catch (error) {
  const { text, exitCode } = toFailure(error)
  if (text !== '') output.note(text)
  process.exitCode = exitCode
}
setTimeout(() => {
  const held = process.getActiveResourcesInfo().join(', ')
  output.note(`bagfs: this process did not end by itself (${held}); please report it. It ends now.`)
  process.exit()
}, LONGEST_END_MS).unref()
