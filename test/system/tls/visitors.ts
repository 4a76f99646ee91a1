import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { Agent, request } from 'node:https'
import { setTimeout as sleep } from 'node:timers/promises'
import type { PeerCertificate, TLSSocket } from 'node:tls'

export interface VisitorsReport {
  readonly requests: number
  /** Descriptions of visits without a complete response of the status 200. */
  readonly failures: readonly string[]
  /** The serial numbers of the shown certificates. */
  readonly serials: ReadonlySet<string>
  readonly perSecond: number
}

/** Visitors of a host, 200 requests per second: most on kept connections, a fifth on separate connections. */
export interface Visitors extends AsyncDisposable {
  readonly serials: ReadonlySet<string>
  /** The requests so far. */
  requests(): number
  stop(): Promise<VisitorsReport>
}

const tickMs = 50
const keptInTick = 8
const freshInTick = 2
/** A longer visit counts as failed. */
const patienceMs = 30_000

export function startVisitors(to: { readonly host: string; readonly port: number; readonly ca: string }): Visitors {
  const { host, port, ca } = to
  const kept = new Agent({ keepAlive: true, maxSockets: 20 })
  const failures: string[] = []
  const serials = new Set<string>()
  const underWay = new Set<Promise<void>>()
  const begun = performance.now()
  let requests = 0
  let ticks = 0
  let isStopped = false

  const visit = async (agent: Agent | false): Promise<void> => {
    requests += 1
    try {
      const headers = { host: `${host}:${port}` }
      const signal = AbortSignal.timeout(patienceMs)
      const sent = request({ host: '127.0.0.1', port, servername: host, ca, agent, headers, path: '/', signal }).end()
      const [answer] = (await once(sent, 'response')) as [IncomingMessage]
      // A connection that has ended no longer knows a certificate.
      const shown = (answer.socket as TLSSocket).getPeerCertificate() as PeerCertificate | null
      if (shown?.serialNumber !== undefined) serials.add(shown.serialNumber)
      await answer.toArray()
      if (answer.statusCode !== 200) failures.push(`status ${answer.statusCode}`)
    } catch (error) {
      failures.push((error as Error).message)
    }
  }
  const begin = (agent: Agent | false) => {
    const visited = visit(agent).finally(() => underWay.delete(visited))
    underWay.add(visited)
  }
  const running = (async () => {
    while (!isStopped) {
      for (let count = 0; count < keptInTick; count++) begin(kept)
      for (let count = 0; count < freshInTick; count++) begin(false)
      // By the clock, so that a slow machine sends as many.
      ticks += 1
      await sleep(Math.max(0, begun + ticks * tickMs - performance.now()))
    }
  })()

  const stop = async (): Promise<VisitorsReport> => {
    isStopped = true
    await running
    const perSecond = Math.round(requests / ((performance.now() - begun) / 1000))
    await Promise.all(underWay)
    kept.destroy()
    return { requests, failures, serials, perSecond }
  }
  return { serials, requests: () => requests, stop, [Symbol.asyncDispose]: async () => void (await stop()) }
}
