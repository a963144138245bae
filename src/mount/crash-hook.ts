import type { CrashPoint } from '../config/crash-point.ts'
import type { Logger } from '../domain/logger.ts'
import type { StepListener } from '../outbox/steps.ts'

/** For crash tests: kills this process, as a power button would, when it passes the given point. */
export function makeCrashHook(point: CrashPoint, log: Logger): StepListener {
  let passed = 0
  return (step) => {
    log.debug({ step }, 'A step is passed.')
    if (step !== point.step) return
    passed += 1
    if (passed === point.passing) process.kill(process.pid, 'SIGKILL')
  }
}
