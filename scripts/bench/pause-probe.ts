import { writeFileSync } from 'node:fs'
import { monitorEventLoopDelay } from 'node:perf_hooks'

/**
 * Loaded into the process of a drive before it starts: keeps the longest pause of its event loop, in
 * milliseconds, in the file that its own URL names (`?to=`). SIGUSR2 begins anew.
 */
const to = new URL(import.meta.url).searchParams.get('to')
if (to === null) throw new Error('Where to?')
const delay = monitorEventLoopDelay({ resolution: 1 })
delay.enable()
process.on('SIGUSR2', () => {
  delay.reset()
})
setInterval(() => {
  writeFileSync(to, String(delay.max / 1e6))
}, 250).unref()
