import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { afterEach, describe, expect, it } from 'vitest'
import { isToStop } from '../../../../src/kernel/dev-fuse/is-to-stop.ts'

const children: ChildProcess[] = []
afterEach(() => {
  for (const child of children.splice(0)) child.kill('SIGKILL')
})

/** A program that stands still, so that signals wait for it; `handles` are caught, `ignores` are not heard. */
async function stopped(handles: string, ignores = ''): Promise<ChildProcess> {
  const script = `
import signal, sys
for name in sys.argv[1].split(): signal.signal(getattr(signal, name), lambda *_: None)
for name in sys.argv[2].split(): signal.signal(getattr(signal, name), signal.SIG_IGN)
print('ready', flush=True)
while True: signal.pause()`
  const child = spawn('python3', ['-c', script, handles, ignores], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  children.push(child)
  await once(child.stdout, 'data')
  child.kill('SIGSTOP')
  const status = `/proc/${child.pid ?? 0}/status`
  await expect.poll(() => readFileSync(status, 'utf8')).toMatch(/^State:\s+T/m)
  return child
}

describe('a program that a signal has come for', () => {
  it.each([
    { what: 'handles a timer', handles: 'SIGALRM', sent: 'SIGALRM', ends: false },
    { what: 'handles the end of a child', handles: 'SIGCHLD', sent: 'SIGCHLD', ends: false },
    { what: 'does not know of windows', handles: '', sent: 'SIGWINCH', ends: false },
    { what: 'ignores Ctrl-C', handles: '', ignores: 'SIGINT', sent: 'SIGINT', ends: false },
    { what: 'handles Ctrl-C', handles: 'SIGINT', sent: 'SIGINT', ends: true },
    { what: 'is ended by a timer', handles: '', sent: 'SIGALRM', ends: true },
    { what: 'is asked to end', handles: '', sent: 'SIGTERM', ends: true },
  ] as const)('and that $what is to stop: $ends', async ({ sent, ends, handles, ...rest }) => {
    const child = await stopped(handles, 'ignores' in rest ? rest.ignores : '')
    expect(isToStop(child.pid ?? 0)).toBe(false)
    child.kill(sent)
    expect(isToStop(child.pid ?? 0)).toBe(ends)
  })

  it('is to stop where nothing is known of it', () => {
    expect(isToStop(2 ** 30)).toBe(true)
  })
})
