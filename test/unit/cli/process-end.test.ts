import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { expect, it, onTestFinished } from 'vitest'
import { hasEnded } from '../../../src/cli/process-end.ts'
import { systemClock } from '../../../src/domain/clock.ts'

it('tells whether a process ends in time', async () => {
  const child = spawn('sleep', ['60'])
  onTestFinished(() => void child.kill())
  await once(child, 'spawn')
  const pid = child.pid ?? 0
  expect(await hasEnded(pid, 50, systemClock)).toBe(false)
  child.kill()
  expect(await hasEnded(pid, 10_000, systemClock)).toBe(true)
})

it('counts one that has ended although its parent has not noticed', async () => {
  const parent = spawn('sh', ['-c', 'sleep 0 & echo $!; exec sleep 60'])
  onTestFinished(() => void parent.kill())
  const [line] = (await once(createInterface(parent.stdout), 'line')) as [string]
  expect(await hasEnded(Number(line), 10_000, systemClock)).toBe(true)
  expect(parent.exitCode).toBeNull()
})
