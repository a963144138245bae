import { spawn } from 'node:child_process'

/** Has the desktop open a link or a directory, and does not wait; where it cannot, `tell` gets the sentence that says so. */
export function openByDesktop(target: string, tell: (sentence: string) => void): void {
  const program = spawn('xdg-open', [target], { stdio: 'ignore', detached: true })
  program.once('error', () => {
    tell('Nothing could be opened: xdg-open is missing (Debian package xdg-utils).')
  })
  program.once('exit', (code) => {
    if (code !== 0 && code !== null) tell('The desktop did not open it.')
  })
  // What it opens may live on after this command.
  program.unref()
}
