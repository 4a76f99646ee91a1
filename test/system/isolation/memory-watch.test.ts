import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { startTimeOf } from '../../../server/src/platform/processes.ts'
import { createMemoryWatch } from '../../../server/src/runtimes/process/confinement/memory-watch.ts'

/*
 * Memory limits without enforcement by the kernel: one measurement of the machine's memory replaces measurements of
 * each app, until an app could have reached its limit.
 */

const limit = 1000

let app: ChildProcess
beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] })
  app = spawn('sleep', ['1000'], { stdio: 'ignore' })
})
afterEach(() => {
  vi.useRealTimers()
  app.kill('SIGKILL')
})

/** Watches the app on a machine whose memory the test sets. */
function watchedApp(machine: { bytes: number | null; ofApp: number; available?: number }) {
  let measured = 0
  const watch = createMemoryWatch({
    machine: () =>
      machine.bytes === null ? null : { used: machine.bytes, available: machine.available ?? 100_000, total: 200_000 },
    bytesOf: () => {
      measured += 1
      return machine.ofApp
    },
  })
  const pid = app.pid ?? 0
  watch.watch('app', { leader: { pid, startTime: startTimeOf(pid) ?? '' }, memoryBytes: limit, listed: () => [] })
  /** Advances time, and finishes measurements; returns how often the app was measured. */
  const after = async (ms: number) => {
    const before = measured
    for (let passed = 0; passed < ms; passed += 100) {
      vi.advanceTimersByTime(100)
      await new Promise((done) => setImmediate(done))
    }
    return measured - before
  }
  return { watch, after }
}

it('an idle app is measured about twice a minute', async () => {
  const { after } = watchedApp({ bytes: 50_000, ofApp: 100 })
  expect(await after(1_000)).toBe(1)
  expect(await after(60_000)).toBeLessThanOrEqual(2)
})

it('an app is measured when the machine’s growth could mean that it reached its limit, and ended beyond it', async () => {
  const machine = { bytes: 50_000, ofApp: 100 }
  const { watch, after } = watchedApp(machine)
  await after(1_000)
  machine.bytes += 400
  expect(await after(1_000)).toBe(0)
  // Others free memory; the count starts from there.
  machine.bytes -= 5_000
  expect(await after(1_000)).toBe(0)
  machine.bytes += 500
  expect(await after(100)).toBe(1)
  machine.bytes += 500
  machine.ofApp = limit + 1
  const ended = once(app, 'exit')
  expect(await after(100)).toBe(1)
  expect(watch.exceeded('app')).toBe(limit + 1)
  vi.useRealTimers()
  await ended
})

it('an app is measured each time where the system does not report the machine’s usage', async () => {
  const { after } = watchedApp({ bytes: null, ofApp: 100 })
  expect(await after(2_000)).toBeGreaterThan(5)
})

it('while little memory is available, an app is measured every two seconds, and ended beyond its limit at once', async () => {
  // Others have freed as much as the app has taken, so the machine's usage is unchanged.
  const machine = { bytes: 50_000, ofApp: 100, available: 100_000 }
  const { watch, after } = watchedApp(machine)
  await after(5_000)
  machine.ofApp = limit + 1
  machine.available = 10_000
  const ended = once(app, 'exit')
  expect(await after(100)).toBe(1)
  expect(watch.exceeded('app')).toBe(limit + 1)
  vi.useRealTimers()
  await ended
})

it('a machine with little memory is not kept busy by measurements', async () => {
  const { after } = watchedApp({ bytes: 50_000, ofApp: 100, available: 1_000 })
  expect(await after(20_000)).toBeLessThanOrEqual(11)
})
