import { Agent, type IncomingMessage, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'

/** A client of the load, which sends one request after another. */
interface ClientKind {
  readonly method: 'GET' | 'POST'
  readonly path: string
  /** True when every request opens a new connection. */
  readonly fresh: boolean
}

/**
 * The kinds of requests that a switch could break: on kept and new connections, with and without a body, quick and
 * slow.
 */
const clients: readonly ClientKind[] = [
  { method: 'GET', path: '/', fresh: false },
  { method: 'GET', path: '/', fresh: false },
  { method: 'POST', path: '/', fresh: false },
  { method: 'POST', path: '/', fresh: false },
  { method: 'GET', path: '/slow', fresh: false },
  { method: 'POST', path: '/slow', fresh: false },
  { method: 'GET', path: '/', fresh: true },
  { method: 'POST', path: '/', fresh: true },
]

const requestTimeoutMs = 15_000
const noticeTimeoutMs = 30_000
const failuresKept = 20

export interface LoadReport {
  readonly requests: number
  readonly failed: number
  readonly failures: readonly string[]
  readonly connections: number
  /** How often clients lost a kept connection. */
  readonly lostConnections: number
  /** The longest time from sending a request to the last byte of its response. */
  readonly slowestMs: number
  /** The number of responses by release. */
  readonly answers: ReadonlyMap<number, number>
}

/** Constant load on the address of an app from `releaseApp`. */
export interface Load extends AsyncDisposable {
  /** Accepts responses of this release from now on: its deployment has begun. */
  expect(release: number): void
  /** Requires this release or a newer release from now on: its deployment has succeeded. */
  require(release: number): void
  /** Resolves when a release has answered once, including in the past. */
  answeredBy(release: number): Promise<void>
  /** Returns the send time of the last request that this release answered, as of `performance.now()`. */
  lastSentTo(release: number): number
  report(): LoadReport
  /** Ends the clients after their current requests. */
  stop(): Promise<LoadReport>
}

/**
 * Starts the load. A request fails without a complete response within 15 s, with a status other than 200, with wrong
 * bytes, or with a response of a release that was not current at any moment between request and response. A release
 * counts as replaced as soon as a newer release has answered any client.
 *
 * @param options.pauseMs how long each client waits after a response
 */
export function startLoad(options: {
  readonly url: string
  readonly release: number
  readonly pauseMs?: number
}): Load {
  const { pauseMs = 5 } = options
  const failures: string[] = []
  const answers = new Map<number, number>()
  const lastSent = new Map<number, number>()
  const watchers = new Set<() => void>()
  const stopping = new AbortController()
  let oldest = options.release
  let newest = options.release
  let requests = 0
  let failed = 0
  let connections = 0
  let lostConnections = 0
  let slowestMs = 0

  const exchange = async (kind: ClientKind, agent: Agent | false, onNewConnection: () => void): Promise<void> => {
    const sentAt = performance.now()
    const oldestAllowed = oldest
    const answer = await ask(options.url, kind, agent, onNewConnection)
    slowestMs = Math.max(slowestMs, performance.now() - sentAt)
    const { release } = answer
    if (answer.status !== 200) throw new Error(`status ${answer.status}: ${answer.body.slice(0, 200)}`)
    if (answer.body !== bodyFor(kind)) throw new Error(`an unexpected body: ${answer.body.slice(0, 200)}`)
    if (!(release >= oldestAllowed && release <= newest)) {
      throw new Error(`answered by release ${release}, when ${oldestAllowed} to ${newest} could be current`)
    }
    oldest = Math.max(oldest, release)
    answers.set(release, (answers.get(release) ?? 0) + 1)
    lastSent.set(release, Math.max(lastSent.get(release) ?? 0, sentAt))
    for (const check of watchers) check()
  }

  const run = async (kind: ClientKind): Promise<void> => {
    const agent = kind.fresh ? false : new Agent({ keepAlive: true, maxSockets: 1 })
    let hasConnection = false
    const onNewConnection = () => {
      connections += 1
      if (hasConnection) lostConnections += 1
      hasConnection = !kind.fresh
    }
    while (!stopping.signal.aborted) {
      requests += 1
      try {
        await exchange(kind, agent, onNewConnection)
      } catch (error) {
        failed += 1
        if (failures.length < failuresKept) {
          const when = `${kind.method} ${kind.path} on a ${kind.fresh ? 'new' : 'kept'} connection`
          failures.push(`${when}: ${error instanceof Error ? error.message : error}`)
        }
      }
      await sleep(pauseMs)
    }
    if (agent !== false) agent.destroy()
  }
  const running = clients.map(run)

  const report = (): LoadReport => ({
    requests,
    failed,
    failures,
    connections,
    lostConnections,
    slowestMs,
    answers,
  })
  const stop = async (): Promise<LoadReport> => {
    stopping.abort()
    await Promise.all(running)
    return report()
  }
  return {
    expect(release) {
      newest = release
    },
    require(release) {
      oldest = Math.max(oldest, release)
    },
    answeredBy(release) {
      const { promise, resolve, reject } = Promise.withResolvers<void>()
      const check = () => {
        if (answers.has(release)) resolve()
      }
      const late = setTimeout(() => {
        reject(new Error(`release ${release} answered nobody; ${failed} failures: ${failures.slice(0, 3).join('; ')}`))
      }, noticeTimeoutMs)
      watchers.add(check)
      check()
      return promise.finally(() => {
        clearTimeout(late)
        watchers.delete(check)
      })
    },
    lastSentTo: (release) => lastSent.get(release) ?? Number.NaN,
    report,
    stop,
    async [Symbol.asyncDispose]() {
      await stop()
    },
  }
}

const payload = 'a small body'

/** Returns the body of `releaseApp`'s responses. */
function bodyFor({ method }: ClientKind): string {
  return method === 'POST' ? `POST ${payload}` : 'GET '
}

function ask(
  url: string,
  { method, path }: ClientKind,
  agent: Agent | false,
  onNewConnection: () => void,
): Promise<{ status: number; release: number; body: string }> {
  return new Promise((done, fail) => {
    const signal = AbortSignal.timeout(requestTimeoutMs)
    const outgoing = request(new URL(path, url), { method, agent, signal })
    outgoing.on('socket', () => {
      if (!outgoing.reusedSocket) onNewConnection()
    })
    outgoing.on('error', fail)
    outgoing.on('response', (response) => {
      text(response).then(
        (body) => done({ status: response.statusCode ?? 0, release: Number(response.headers['x-release']), body }),
        fail,
      )
    })
    outgoing.end(method === 'POST' ? payload : undefined)
  })
}

/** Rejects when the response is incomplete. */
async function text(response: IncomingMessage): Promise<string> {
  return Buffer.concat(await response.toArray()).toString()
}
