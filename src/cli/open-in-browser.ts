import { spawn } from 'node:child_process'
import type { Output } from './output.ts'

/** Has the desktop open a link. Where it cannot, the person does that: the link was printed. */
export function openInBrowser(url: string, output: Output): void {
  const program = spawn('xdg-open', [url], { stdio: 'ignore', detached: true })
  program.once('error', () => {
    output.note('No browser could be opened: xdg-open is missing.')
  })
  program.once('exit', (code) => {
    if (code !== 0 && code !== null) output.note('The desktop opened no browser.')
  })
  // A browser may live on after this command.
  program.unref()
}
