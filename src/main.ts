#!/usr/bin/env node
import { toFailure } from './cli/errors.ts'
import { Output } from './cli/output.ts'
import { createProgram } from './cli/program.ts'
import { readEnvironment } from './config/env.ts'

const output = new Output({ stdout: process.stdout, stderr: process.stderr })
try {
  await createProgram({ output, environment: readEnvironment() }).parseAsync()
} catch (error) {
  const { text, exitCode } = toFailure(error)
  if (text !== '') output.note(text)
  process.exitCode = exitCode
}
await output.flush()
// Not left to Node: while it takes itself apart, threads of libfuse may still ask it something.
process.exit()
