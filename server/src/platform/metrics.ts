import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
import type { Logger } from './logger.ts'

export interface Metrics {
  /** Counts a request. `operation` is a name of the contract, or `none` when the request matched no operation. */
  observeRequest(request: { operation: string; status: number; seconds: number }): void
  /** Registers a gauge with one label. It is read at each scrape, and left out when the read fails. */
  gauge(gauge: {
    readonly name: string
    readonly help: string
    readonly label: string
    readonly read: () => Promise<Readonly<Record<string, number>>>
  }): void
  /** Registers a counter that something else counts. It is read at each scrape. */
  counter(counter: { readonly name: string; readonly help: string; readonly read: () => number }): void
  text(): Promise<string>
  readonly type: string
}

/** In seconds, from a read by id to a request that waits for others. */
const buckets = [0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]

/** Creates metrics with a separate registry, so that several servers in one process do not share numbers. */
export function createMetrics({ logger }: { readonly logger: Logger }): Metrics {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  const requests = new Histogram({
    name: 'fairlead_http_request_seconds',
    help: 'Time from a request to its answer, by operation and status.',
    labelNames: ['operation', 'status'],
    buckets,
    registers: [registry],
  })
  return {
    observeRequest({ operation, status, seconds }) {
      requests.observe({ operation, status }, seconds)
    },
    gauge({ name, help, label, read }) {
      new Gauge({
        name,
        help,
        labelNames: [label],
        registers: [registry],
        async collect() {
          this.reset()
          try {
            for (const [value, count] of Object.entries(await read())) this.set({ [label]: value }, count)
          } catch (error) {
            logger.warn({ err: error, metric: name }, 'cannot read a metric')
          }
        },
      })
    },
    counter({ name, help, read }) {
      new Counter({
        name,
        help,
        registers: [registry],
        collect() {
          this.reset()
          this.inc(read())
        },
      })
    },
    text: () => registry.metrics(),
    type: registry.contentType,
  }
}
