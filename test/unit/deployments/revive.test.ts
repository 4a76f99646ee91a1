import { pino } from 'pino'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { DeploymentError, type DeploymentFailure } from '../../../server/src/features/deployments/failure.ts'
import { createRevive } from '../../../server/src/features/deployments/reconciler.ts'
import type { Endpoint, Handle, Observation } from '../../../server/src/runtimes/runtime.ts'
import { deploymentRow, releaseOfRow as release } from '../../harness/deployment-row.ts'

const ended: Handle = { runtime: 'process', data: { pid: 1 } }
const started: Handle = { runtime: 'process', data: { pid: 2 } }
const endpoints = [{ host: '127.0.0.1', port: 10_000 }] as const
const plan = { kind: 'node', build: [], start: { argv: ['node', 'server.js'] } } as const
const row = deploymentRow({ id: 'dep_1', status: 'running', build_plan: plan, instance: ended })
const exited: Observation = { state: 'exited', code: 1, signal: null, exceeded: null }

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['performance'] })
})
afterEach(() => {
  vi.useRealTimers()
})

/** A release that can be revived repeatedly; `done` and `failures` record the events. */
function revivable(
  options: {
    readonly isRunning?: boolean
    readonly isHealthy?: boolean
    /** True when another instance replaces the ended instance. */
    readonly isReplaced?: boolean
    readonly observed?: Observation
    /** An error of the machine, not of the app. */
    readonly shortage?: Error
    readonly replicas?: readonly Endpoint[]
  } = {},
) {
  const { isRunning = true, isHealthy = true, isReplaced = false, observed = exited, shortage, replicas = [] } = options
  const done: string[] = []
  const failures: DeploymentFailure[] = []
  const revive = createRevive({
    store: {
      jobs: {
        runs: async () => isRunning && !done.includes('fail'),
        setInstance: async () => isRunning,
      },
    },
    instances: {
      stop: async () => void done.push('stop'),
      start: async (_release, _runtime, _command, { beside } = {}) => {
        // A replaced instance may keep its predecessor's name until the predecessor's requests are finished.
        if (beside !== true) done.push('under the same name')
        done.push('start')
        if (shortage !== undefined) throw shortage
        return started
      },
      halt: async () => void done.push('halt'),
      observe: async () => observed,
    },
    routes: {
      route: async (_, upstream) => {
        done.push(upstream.endpoints.length === 1 ? 'route' : 'route to all')
        return true
      },
    },
    checkHealth: async () => {
      if (isHealthy) return { instance: started, endpoints }
      throw new DeploymentError('start', 'app_exited', 'The app exited with code 1.')
    },
    lastLines: async () => ['the last line'],
    fail: async (_, failure, only) => {
      expect([ended, started]).toContain(only?.instance)
      if (isReplaced) return
      done.push('fail')
      failures.push(failure)
    },
    secrets: { valuesOf: () => [] },
    settings: { startTimeoutMs: 1_000, stableMs: 0 },
    noteRestart: () => undefined,
    logger: pino({ level: 'silent' }),
  })
  return {
    done,
    failures,
    revive: (signal = new AbortController().signal) => revive(row, release, async () => replicas, signal),
    /** Revives the release `times` times, each time after a sufficient pause for the next start. */
    async crash(times: number) {
      for (let crash = 0; crash < times; crash++) {
        await revive(row, release, async () => replicas, new AbortController().signal)
        vi.advanceTimersByTime(20_000)
      }
    },
  }
}

describe('a release whose instance has ended', () => {
  it('starts again at once and gets its address back', async () => {
    const { done, failures, revive } = revivable()
    await revive()
    expect(done).toEqual(['stop', 'start', 'route'])
    expect(failures).toEqual([])
  })

  it('does not start again before its pause is over', async () => {
    const { done, revive } = revivable()
    await revive()
    vi.advanceTimersByTime(999)
    await revive()
    expect(done.filter((each) => each === 'start')).toHaveLength(1)
    vi.advanceTimersByTime(1)
    await revive()
    expect(done.filter((each) => each === 'start')).toHaveLength(2)
  })

  it('ends without a route when it was stopped during the start', async () => {
    const { done, revive } = revivable({ isRunning: false })
    await revive()
    expect(done).toEqual(['stop', 'start', 'stop'])
  })

  it('leaves the instances of other process types unchanged when it does not become healthy', async () => {
    const { done, crash } = revivable({ isHealthy: false })
    await crash(4)
    expect(done).not.toContain('halt')
    expect(done.slice(0, 3)).toEqual(['stop', 'start', 'stop'])
  })

  it('is neither halted nor failed by a stopping server', async () => {
    const { done, failures, revive } = revivable()
    await revive(AbortSignal.abort())
    expect(done).toEqual(['stop'])
    expect(failures).toEqual([])
  })
})

describe('a release that crashes repeatedly', () => {
  it('fails with the last lines of its log after the fifth restart', async () => {
    const { done, failures, crash } = revivable()
    await crash(5)
    expect(failures).toEqual([])
    await crash(1)
    expect(done.filter((each) => each === 'start')).toHaveLength(5)
    // Instances of its other process types would outlive the failure. An instance that is starting ends after the halt,
    // because it finds the failure.
    expect(done.slice(-2)).toEqual(['fail', 'halt'])
    expect(failures).toEqual([{ stage: 'run', code: 'crash_loop', message: expect.stringContaining('the last line') }])
  })

  it('fails at the fifth restart that does not become healthy, with the reason of that start', async () => {
    const { done, failures, crash } = revivable({ isHealthy: false })
    await crash(5)
    expect(done.filter((each) => each === 'halt')).toHaveLength(1)
    expect(failures).toEqual([
      { stage: 'run', code: 'crash_loop', message: expect.stringContaining('The app exited with code 1.') },
    ])
  })

  it('stays when another instance has replaced the ended instance', async () => {
    for (const isHealthy of [true, false]) {
      const { done, failures, crash } = revivable({ isHealthy, isReplaced: true })
      await crash(6)
      expect([done.includes('halt'), failures]).toEqual([false, []])
    }
  })

  it('fails with the exceeded limit', async () => {
    const exceeded = { code: 'out_of_memory', allowed: 512_000_000, used: 600_000_000 } as const
    const { failures, crash } = revivable({ observed: { ...exited, exceeded } })
    await crash(6)
    expect(failures).toMatchObject([
      { stage: 'run', code: 'out_of_memory', message: expect.stringContaining('600 MB') },
    ])
  })

  it('stays while another instance serves at the shared address', async () => {
    const serving = { replicas: [{ host: '127.0.0.1', port: 10_001 }] }
    const { done, failures, crash } = revivable({ ...serving, isHealthy: false })
    await crash(5)
    expect([done.includes('halt'), failures]).toEqual([false, []])
    const healthy = revivable(serving)
    await healthy.crash(1)
    expect(healthy.done).toEqual(['stop', 'start', 'route to all'])
  })

  it('is retried for as long as the machine cannot start it, and does not fail', async () => {
    const { done, failures, revive } = revivable({ shortage: new Error('spawn EMFILE') })
    const starts = () => done.filter((each) => each === 'start').length
    const pauses: number[] = []
    for (let seconds = 0; starts() < 9; seconds += 1) {
      const before = starts()
      await revive()
      if (starts() > before) pauses.push(seconds)
      vi.advanceTimersByTime(1_000)
    }
    expect(pauses.map((at, index) => at - (pauses[index - 1] ?? 0))).toEqual([0, 1, 2, 4, 8, 16, 32, 60, 60])
    expect(failures).toEqual([])
  })
})
