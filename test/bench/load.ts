import autocannon from 'autocannon'
import { median, quantile } from './statistics.ts'

export interface Round {
  readonly perSecond: number
  readonly meanMs: number
  readonly p99Ms: number
}

export interface Target {
  readonly url: string
  readonly method?: 'GET' | 'POST'
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
}

/** The duration of a round. */
export type Length = { readonly seconds: number } | { readonly requests: number }

/** Runs one round with as many requests as the connections handle. Rejects when any request fails. */
export async function load(
  target: Target,
  { connections, signal, ...length }: Length & { readonly connections: number; readonly signal: AbortSignal },
): Promise<Round> {
  signal.throwIfAborted()
  const times: number[] = []
  const result = await new Promise<autocannon.Result>((done, fail) => {
    const { headers = {}, ...rest } = target
    const duration = 'requests' in length ? { amount: length.requests } : { duration: length.seconds }
    const instance = autocannon({ ...rest, headers, connections, ...duration }, (error, outcome) => {
      if (error) fail(error)
      else done(outcome)
    })
    // Collected here, because its own percentiles are rounded to whole milliseconds.
    instance.on('response', (_client, _status, _bytes, milliseconds) => times.push(milliseconds))
    const stop = () => instance.stop()
    signal.addEventListener('abort', stop, { once: true })
    instance.on('done', () => signal.removeEventListener('abort', stop))
  })
  signal.throwIfAborted()
  if (result.errors > 0 || result.non2xx > 0) {
    throw new Error(`${target.url}: ${result.errors} requests failed, ${result.non2xx} were refused`)
  }
  return {
    perSecond: result.requests.total / result.duration,
    meanMs: times.reduce((sum, time) => sum + time, 0) / times.length,
    p99Ms: quantile(times, 0.99),
  }
}

/** Returns the medians of the rounds. */
export function summary(rounds: readonly Round[]): Round {
  return {
    perSecond: median(rounds.map(({ perSecond }) => perSecond)),
    meanMs: median(rounds.map(({ meanMs }) => meanMs)),
    p99Ms: median(rounds.map(({ p99Ms }) => p99Ms)),
  }
}

export function describe({ perSecond, p99Ms }: Round): string {
  return `${Math.round(perSecond)} requests/s, p99 ${p99Ms.toFixed(1)} ms`
}
