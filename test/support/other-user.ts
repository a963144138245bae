import { chmodSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { execa } from 'execa'

/** A user of the machine that owns nothing, by the number that most systems have for it. */
export const OTHER_UID = 65_534

/** How a program ended that another user ran. */
export interface OtherOutcome {
  readonly code: number | undefined
  /** What it said, on stdout and stderr alike. */
  readonly said: string
}

/** Runs a shell command as another user of the machine; only root can. */
export async function asOther(
  command: string,
  options: { readonly cwd?: string; readonly env?: Readonly<Record<string, string>> } = {},
): Promise<OtherOutcome> {
  const ids = [`--reuid=${OTHER_UID}`, `--regid=${OTHER_UID}`, '--clear-groups']
  const { exitCode, all } = await execa('setpriv', [...ids, 'bash', '-c', command], {
    ...options,
    timeout: 120_000,
    killSignal: 'SIGKILL',
    reject: false,
    all: true,
  })
  return { code: exitCode, said: all }
}

/** Lets other users pass a directory of a test, also where the directory for temporary files is private. */
export function letOthersPass(dir: string): void {
  for (const each of [tmpdir(), dir]) chmodSync(each, statSync(each).mode | 0o011)
}
