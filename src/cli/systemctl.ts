import { execFile } from 'node:child_process'
import { DriveError, isAbsent } from '../domain/errors.ts'

/** Runs `systemctl --user`; resolves with what it prints. Rejects `usage` where there is no systemd, else with its words. */
export function systemctl(...args: readonly string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    execFile('systemctl', ['--user', ...args], (error, stdout, stderr) => {
      if (error === null) resolve(stdout)
      else if (isAbsent(error)) reject(noSystemd())
      else reject(refused(args[0] ?? '', stderr))
    })
  })
}

function noSystemd(): DriveError {
  return new DriveError('usage', 'This machine has no systemd: the program systemctl is missing.', {
    hint: 'Let what starts your session run bagfs mount.',
  })
}

function refused(what: string, stderr: string): DriveError {
  const words = stderr.trim().split('\n')[0] ?? ''
  const why = words === '' ? 'it gave no reason' : words.replace(/\.$/, '')
  return new DriveError('local-io', `systemctl --user ${what} failed: ${why}.`, {
    hint: 'It has to be run in a session of this user, with its own systemd: systemctl --user status',
  })
}
