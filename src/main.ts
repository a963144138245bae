#!/usr/bin/env node
import { basename } from 'node:path'
import { fileURLToPath } from 'node:url'
import { toFailure } from './cli/errors.ts'
import { Output } from './cli/output.ts'
import { leadsToJournal, takeEnvironment } from './config/env.ts'

const output = new Output(
  { stdout: process.stdout, stderr: process.stderr },
  { isInJournal: leadsToJournal(process.stderr.fd) },
)
try {
  const environment = takeEnvironment()
  if (basename(process.argv[1] ?? '') === 'mount.bagfs') {
    const { fromMountHelper } = await import('./cli/mount-helper.ts')
    const typed = fromMountHelper(process.argv.slice(2))
    if (typed === undefined) process.exit()
    // By its own name: what it starts is no helper.
    process.argv = [process.execPath, fileURLToPath(import.meta.url), ...typed]
  }
  // All the rest is loaded here, so that a failure of that is put into words, too.
  const { createProgram } = await import('./cli/program.ts')
  const program = await createProgram({ output, environment }, process.argv.slice(2))
  await program.parseAsync()
} catch (error) {
  const { text, exitCode } = toFailure(error)
  if (text !== '') output.note(text, 'error')
  process.exitCode = exitCode
}
await output.flush()
// Not left to Node: while it takes itself apart, threads of libfuse may still ask it something.
process.exit()
