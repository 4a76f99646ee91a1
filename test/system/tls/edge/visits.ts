import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { type ClientHttp2Session, connect as connectHttp2 } from 'node:http2'
import { Agent, request } from 'node:https'
import { dial, testAuthority, visit } from '../../../harness/edge.ts'

/*
 * Constant load on a name behind the edge: requests with and without a body, on kept and new connections, in both
 * versions of HTTP that a client here supports.
 */

export interface VisitsReport {
  readonly requests: number
  /** Descriptions of the failures. */
  readonly failures: readonly string[]
  readonly slowestMs: number
}

export interface Visits {
  requests(): number
  /** Ends the load, and resolves when the last requests are answered. */
  stop(): Promise<VisitsReport>
}

interface To {
  readonly host: string
  readonly port: number
  readonly path?: string
}

type Send = (method: string, body: string | undefined) => Promise<string>

const body = 'x'.repeat(20_000)

/**
 * Starts the load; each client sends one request after another. A response with another text than the app's is a
 * failure.
 */
export async function startVisits(to: To, isRight: (text: string, method: string) => boolean): Promise<Visits> {
  const kept = await keptConnection(to)
  const session = await http2Session(to)
  const fresh: Send = async (method, content) => {
    const { status, text } = await visit({ ...to, method, ...(content === undefined ? {} : { body: content }) })
    return status === 200 ? text : `status ${status}`
  }
  const failures: string[] = []
  let requests = 0
  let slowestMs = 0
  let isOver = false
  const loop = async (send: Send, method: string): Promise<void> => {
    while (!isOver) {
      const begin = performance.now()
      const text = await send(method, method === 'POST' ? body : undefined).catch((error: Error) => `${error}`)
      requests += 1
      slowestMs = Math.max(slowestMs, performance.now() - begin)
      if (!isRight(text, method)) failures.push(`${method}: ${text.slice(0, 100)}`)
    }
  }
  const clients = [kept.send, session.send, fresh].flatMap((send) => [loop(send, 'GET'), loop(send, 'POST')])
  return {
    requests: () => requests,
    async stop() {
      isOver = true
      await Promise.all(clients)
      kept.close()
      session.close()
      return { requests, failures, slowestMs }
    },
  }
}

async function keptConnection({ host, port, path = '/' }: To) {
  const { ca } = await testAuthority()
  const lookup = (_: string, options: { all?: boolean }, done: (...found: unknown[]) => void) =>
    options.all === true ? done(null, [{ address: '127.0.0.1', family: 4 }]) : done(null, '127.0.0.1', 4)
  const agent = new Agent({ keepAlive: true, maxSockets: 2, ca })
  const send: Send = async (method, content) => {
    const sent = request({ host, port, path, method, agent, lookup } as object)
    sent.end(content)
    const [answer] = (await once(sent, 'response')) as [IncomingMessage]
    const text = String(Buffer.concat(await answer.toArray()))
    return answer.statusCode === 200 ? text : `status ${answer.statusCode}`
  }
  return { send, close: () => agent.destroy() }
}

async function http2Session({ host, port, path = '/' }: To) {
  let session: ClientHttp2Session | undefined
  const open = async (): Promise<ClientHttp2Session> => {
    if (session?.closed === false && !session.destroyed) return session
    const socket = await dial({ host, port }, { ALPNProtocols: ['h2'] })
    session = connectHttp2(`https://${host}:${port}`, { createConnection: () => socket })
    return session
  }
  await open()
  const send: Send = async (method, content) => {
    const stream = (await open()).request({ ':method': method, ':path': path })
    stream.end(content)
    const [head] = (await once(stream, 'response')) as [Record<string, unknown>]
    const text = String(Buffer.concat(await stream.toArray()))
    return head[':status'] === 200 ? text : `status ${head[':status']}`
  }
  return { send, close: () => session?.destroy() }
}
