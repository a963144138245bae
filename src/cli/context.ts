import type { Environment } from '../config/env.ts'
import type { Output } from './output.ts'

/** What every command gets. */
export interface CommandContext {
  readonly output: Output
  readonly environment: Environment
}
