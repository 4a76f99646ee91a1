import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer, request } from '../../platform/http.ts'
import { isHostname } from '../protocol/edge-calls.ts'
import type { Log } from '../protocol/log.ts'
import type { Edge } from '../routing/edge.ts'
import { stopAccepting } from '../routing/listener.ts'
import { listenAt } from './socket-file.ts'
import { createWaitingQuestions, type WaitingQuestions } from './waiting-questions.ts'

/** A TLS client may send a name of 64 KiB, whose bytes may be escaped here. Such a name is unknown, not an error. */
const MAX_HEAD_BYTES = 256 * 1024
const KEEP_ALIVE_TIMEOUT_MS = 75_000
/** Longer than any question waits. */
const RETIRE_MS = 35_000

/**
 * Answers the edge's questions. It asks for the certificate of a name, and whether it may obtain one itself, which is
 * always refused.
 */
export interface Questions extends Pick<WaitingQuestions, 'recheck' | 'retell'> {
  listen(path: string): Promise<void>
  /** Passes all questions on to the gateway that has taken the path. Resolves when no connection is left. */
  retire(path: string): Promise<void>
}

export interface QuestionsOptions {
  readonly edge: Pick<Edge, 'servedAs' | 'certificateOf'>
  /** Tells the server about a name without a certificate; returns false without a server. */
  readonly tell: (hostname: string) => boolean
  readonly log: Log
}

export function createQuestions({ edge, tell, log }: QuestionsOptions): Questions {
  const waiting = createWaitingQuestions({ edge, tell })
  let successor: string | null = null
  const server = createServer(
    { maxHeaderSize: MAX_HEAD_BYTES, keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS },
    (req, res) => {
      if (successor !== null) res.shouldKeepAlive = false
      const [path, query] = (req.url ?? '').split('?', 2)
      if (req.method !== 'GET' || (path !== '/certificate' && path !== '/ask')) res.writeHead(404).end()
      else if (path === '/ask') res.writeHead(403).end()
      else answerCertificate(req, res, hostnameIn(query))
    },
  )

  function answerCertificate(req: IncomingMessage, res: ServerResponse, hostname: string | null): void {
    if (successor !== null) passOn(successor, req, res)
    else if (hostname === null) res.writeHead(204).end()
    else {
      const giveUp = waiting.ask(hostname, (outcome) => {
        if (outcome === 'elsewhere' && successor !== null) passOn(successor, req, res)
        else if (typeof outcome === 'string') res.writeHead(204).end()
        else res.writeHead(200, { 'Content-Length': outcome.length, 'Cache-Control': 'no-store' }).end(outcome)
      })
      res.on('close', giveUp)
    }
  }

  return {
    recheck: waiting.recheck,
    retell: waiting.retell,
    async listen(path) {
      await listenAt(server, path)
      server.on('error', (error) => log.error({ err: error.message }, 'a listener failed'))
    },
    async retire(path) {
      if (!server.listening) return
      successor = path
      waiting.endAll('elsewhere')
      const closed = new Promise((resolve) => server.once('close', resolve))
      await stopAccepting(server)
      server.closeIdleConnections()
      const cut = setTimeout(() => server.closeAllConnections(), RETIRE_MS)
      await closed
      clearTimeout(cut)
    },
  }
}

/** Returns the host name in a question; null when it is invalid, or when there are several. */
function hostnameIn(query: string | undefined): string | null {
  const [name = '', ...others] = new URLSearchParams(query).getAll('server_name')
  // Some non-ASCII letters become ASCII in lower case.
  if (others.length > 0 || !/^[\x21-\x7e]+$/.test(name)) return null
  const hostname = name.toLowerCase().replace(/\.$/, '')
  return isHostname(hostname) ? hostname : null
}

function passOn(path: string, { url }: IncomingMessage, res: ServerResponse): void {
  const question = request({ socketPath: path, path: url, agent: false }, (incoming) => {
    res.writeHead(incoming.statusCode ?? 204, { 'Content-Length': incoming.headers['content-length'] ?? 0 })
    incoming.pipe(res)
  })
  question.on('error', () => {
    if (res.headersSent) res.destroy()
    else res.writeHead(204).end()
  })
  res.on('close', () => question.destroy())
  question.end()
}
