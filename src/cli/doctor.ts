import type { Command } from '@commander-js/extra-typings'
import type { CommandContext } from './context.ts'
import { writeBundle } from './doctor/bundle.ts'
import type { Check } from './doctor/check.ts'
import { examine } from './doctor/examine.ts'

const AFTER_HELP = `
Changes nothing. Each line is ok, a warning or a failure; below it is what mends it. The JSON is
{"ok": false, "checks": [{"name": "/dev/fuse", "state": "failure", "says": "...", "mend": "..."}]}.`

/** Adds `bagfs doctor`. */
export function addDoctor(program: Command, context: CommandContext): void {
  const { output, environment } = context
  program
    .command('doctor')
    .description('look at all that a mount needs, and say what mends it; fails (1) at a failure')
    .argument('[profile]', 'as for a drive of this account (default: the default one)')
    .option('--json', 'as JSON')
    .option('--bundle <file>', 'write a report for other people to a new file; no token is in it')
    .addHelpText('after', AFTER_HELP)
    .action(async (profile, { json = false, bundle }) => {
      const examination = await examine(context, profile)
      const { checks } = examination
      const lines = toLines(checks)
      const ok = count(checks, 'failure') === 0
      if (json) output.json({ ok, checks })
      else for (const line of lines) output.line(line)
      if (!ok) process.exitCode = 1
      if (!json) output.note(summarise(checks))
      if (bundle === undefined) return
      await writeBundle(bundle, examination, { lines, environment })
      output.note(`Report: ${bundle}. No token is in it; names of your files and directories are.`)
    })
}

function toLines(checks: readonly Check[]): readonly string[] {
  const width = Math.max(...checks.map(({ name }) => name.length))
  return checks.flatMap(({ state, name, says, mend }) => {
    const head = `${state.padEnd('warning'.length)}  ${name.padEnd(width)}  `
    const below = (mend ?? '').split('\n').filter((line) => line !== '')
    return [head + says, ...below.map((line) => ' '.repeat(head.length) + line)]
  })
}

function summarise(checks: readonly Check[]): string {
  const [failures, warnings] = [count(checks, 'failure'), count(checks, 'warning')]
  if (failures + warnings === 0) return 'All is well.'
  const plural = (number: number, word: string): string =>
    `${number} ${word}${number === 1 ? '' : 's'}`
  return `${plural(failures, 'failure')}, ${plural(warnings, 'warning')}.`
}

function count(checks: readonly Check[], state: Check['state']): number {
  return checks.filter((check) => check.state === state).length
}
