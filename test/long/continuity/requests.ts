import { Agent, request } from 'node:http'
import { createCounter, type Tally } from './tally.ts'

/** A constant rate of requests, independent of their outcomes. */
export interface RequestLoad {
  take(): Tally
  /** Resolves when all running requests have ended. */
  stop(): Promise<void>
}

export interface RequestKind {
  readonly url: string
  readonly method: 'GET' | 'POST'
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
  readonly status: number
}

const timeoutMs = 30_000

/**
 * Sends `perSecond` requests a second. Every second request opens a new connection, the others share kept ones. A
 * request fails without a complete response within 30 s, or with a status other than expected.
 *
 * @param next returns the request to send as number `index`
 */
export function startRequests(perSecond: number, next: (index: number) => RequestKind): RequestLoad {
  const counter = createCounter()
  const kept = new Agent({ keepAlive: true, maxSockets: 20 })
  const underWay = new Set<Promise<void>>()
  const startedAt = performance.now()
  let index = 0

  const send = async (): Promise<void> => {
    const kind = next(index)
    const agent = index % 2 === 0 ? kept : new Agent()
    const sentAt = performance.now()
    try {
      const status = await exchange(kind, agent)
      if (status !== kind.status) throw new Error(`${kind.method} ${kind.url} was answered with ${status}`)
      counter.succeeded(performance.now() - sentAt)
    } catch (error) {
      counter.failed(error)
    }
  }
  const timer = setInterval(() => {
    // Sends all due requests: a late timer must not lower the rate.
    const due = ((performance.now() - startedAt) / 1000) * perSecond
    for (; index < due; index++) {
      const one: Promise<void> = send().finally(() => underWay.delete(one))
      underWay.add(one)
    }
  }, 10)

  return {
    take: counter.take,
    async stop() {
      clearInterval(timer)
      await Promise.all(underWay)
      kept.destroy()
    },
  }
}

function exchange({ url, method, headers, body }: RequestKind, agent: Agent): Promise<number> {
  return new Promise((done, fail) => {
    const outgoing = request(url, { method, agent, headers: { ...headers }, signal: AbortSignal.timeout(timeoutMs) })
    outgoing.on('error', fail)
    outgoing.on('response', (response) => {
      response.on('error', fail)
      response.on('end', () => done(response.statusCode ?? 0))
      response.resume()
    })
    outgoing.end(body)
  })
}
