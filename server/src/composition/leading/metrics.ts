import { createMetrics, type InstanceUsage, type Metrics } from '../../apps/metrics/collect.ts'
import { startPeriodic } from '../../platform/periodic.ts'
import type { Composition } from '../composition.ts'

/** Rare enough that two hundred idle apps cost almost nothing. */
const measureEveryMs = 30_000
const writeEveryMs = 10_000

/** The metrics of apps, which only the leader collects and writes. */
export interface MetricsWork extends Pick<Metrics, 'count' | 'noteRestart'> {
  /** Starts to measure live instances regularly, and measures them once more when the leader stops. */
  startMeasuring(measure: (signal: AbortSignal) => Promise<readonly InstanceUsage[]>): void
}

/** Starts to write metrics. Must be called before the gateway is created, so that its last counts are also written. */
export function leadMetrics({ state, stack, logger }: Composition): MetricsWork {
  const metrics = createMetrics({ database: state.db })
  const writing = startPeriodic({ name: 'writing metrics', everyMs: writeEveryMs, work: metrics.write, logger })
  stack.defer('metrics', async () => {
    await writing.stop()
    await metrics.write()
  })
  return {
    count: metrics.count,
    noteRestart: metrics.noteRestart,
    startMeasuring(measure) {
      const work = async (signal: AbortSignal) => metrics.measure(await measure(signal))
      const measuring = startPeriodic({ name: 'measuring apps', everyMs: measureEveryMs, work, logger })
      stack.defer('measuring apps', async () => {
        await measuring.stop()
        await work(new AbortController().signal)
      })
    },
  }
}
