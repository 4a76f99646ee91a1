import { createServer, type Server as NetServer, type Socket } from 'node:net'
import { isAbsolute } from 'node:path'
import type { CallName, Calls, Endpoint, Refusal, Sticky, ToEngine } from '../protocol/calls.ts'
import { assertEdgeCall, type EdgeCallName, type Uncertified } from '../protocol/edge-calls.ts'
import type { FromGateway, Replace, ToGateway, Welcome } from '../protocol/program.ts'
import { callErrorOf, carryLines, type Handlers, serveCalls } from '../protocol/rpc.ts'

/** A connection without a valid first message in this time is closed. */
const HELLO_MS = 10_000

const allowed: ReadonlySet<CallName> = new Set<keyof Calls>([
  'listen',
  'open',
  'route',
  'drain',
  'close',
  'probe',
  'ping',
  'takeTraffic',
  'stop',
  'name',
  'certify',
  'answerAt',
])

export interface ControlOptions {
  readonly handlers: Handlers<NetServer>
  readonly describe: () => Omit<Welcome, 'type'>
  readonly onWelcomed: () => void
  readonly replace: (request: Replace) => Promise<void>
  /** Called when the reply to `stop` is on its way. */
  readonly onStopped: () => void
  /** Called when the reply to a successful `replace` is on its way. */
  readonly onReplaced: () => void
  /** The newest epoch that a predecessor has seen. */
  readonly epoch: number
}

/**
 * The socket on which a gateway takes calls. Only one server at a time makes calls: the server with the newest epoch.
 */
export interface ControlServer {
  readonly server: NetServer
  epoch(): number
  /** Sends a notice to the server that leads the gateway; returns false when no server does. */
  notify(notice: Refusal | Uncertified): boolean
  /** Closes all connections after everything has been sent. */
  close(): Promise<void>
}

interface Connection {
  readonly post: (message: FromGateway) => void
  readonly socket: Socket
}

export function createControlServer(options: ControlOptions): ControlServer {
  let newest = options.epoch
  let current: Connection | null = null
  const sockets = new Set<Socket>()

  const dismiss = ({ post, socket }: Connection, message: string): void => {
    post({ type: 'dismissed', message })
    socket.end()
  }

  const welcome = (connection: Connection, epoch: number): boolean => {
    if (epoch < newest) {
      dismiss(connection, `a server of epoch ${newest} leads this gateway, and this one is of epoch ${epoch}`)
      return false
    }
    newest = epoch
    if (current !== null) dismiss(current, `another server leads this gateway now, of epoch ${epoch}`)
    current = connection
    connection.post({ type: 'welcome', ...options.describe() })
    options.onWelcomed()
    return true
  }

  const answerReplace = async ({ post }: Connection, request: Replace): Promise<void> => {
    const { id } = request
    try {
      await options.replace(request)
      post({ type: 'reply', id, result: null })
      options.onReplaced()
    } catch (error) {
      post({ type: 'failure', id, error: callErrorOf(error) })
    }
  }

  const server = createServer((socket) => {
    sockets.add(socket)
    socket.setTimeout(HELLO_MS, () => socket.destroy())
    socket.on('error', () => {})
    socket.on('close', () => {
      sockets.delete(socket)
      if (current === connection) current = null
    })
    const post = carryLines<ToGateway, FromGateway>(socket, receive)
    const connection: Connection = { post, socket }
    const answer = serveCalls(options.handlers, (message) => {
      post(message)
      if (message.type === 'reply' && message.id === stopping) options.onStopped()
    })
    let stopping: number | null = null

    function receive(message: ToGateway): void {
      if (message.type === 'hello') {
        if (!Number.isSafeInteger(message.epoch)) throw new Error('an epoch is a number')
        if (welcome(connection, message.epoch)) socket.setTimeout(0)
      } else if (message.type === 'status') {
        post({ type: 'welcome', ...options.describe() })
      } else if (current !== connection) {
        if ('id' in message) post({ type: 'failure', id: message.id, error: notLeading })
      } else if (message.type === 'replace') {
        void answerReplace(connection, message)
      } else {
        assertCall(message)
        if (message.type === 'request' && message.name === 'stop') stopping = message.id
        answer(message)
      }
    }
  })

  return {
    server,
    epoch: () => newest,
    notify(notice) {
      current?.post(notice)
      return current !== null
    },
    async close() {
      server.close()
      await Promise.all(
        [...sockets].map((socket) => {
          socket.end()
          return new Promise<void>((resolve) => socket.once('close', () => resolve()))
        }),
      )
    },
  }
}

const notLeading = { message: 'another server leads this gateway', code: null }

/** Throws for messages that no version sends. */
function assertCall(message: ToEngine): void {
  if (message.type === 'cancel') return
  if (message.type !== 'request' || !Number.isSafeInteger(message.id) || !allowed.has(message.name)) {
    throw new Error('this is not a call')
  }
  if (['takeTraffic', 'listen', 'ping'].includes(message.name)) return
  const { parameters } = message
  if (typeof parameters !== 'object' || parameters === null) throw new Error('a call lacks its parameters')
  if (message.name in assertEdgeCall) assertEdgeCall[message.name as EdgeCallName](parameters as never)
  if (!('upstream' in parameters) || parameters.upstream === null) return
  const { deploymentId, endpoints, sticky } = parameters.upstream
  const isUpstream = typeof deploymentId === 'string' && Array.isArray(endpoints) && endpoints.length > 0
  if (!isUpstream || !endpoints.every(isEndpoint)) throw new Error('an upstream lacks its endpoints')
  if (sticky !== undefined && !isSticky(sticky, endpoints.length)) throw new Error('an upstream lacks its keys')
}

function isSticky({ cookie, keys }: Sticky, count: number): boolean {
  const isToken = (text: unknown): boolean => typeof text === 'string' && /^\w{1,64}$/.test(text)
  return isToken(cookie) && Array.isArray(keys) && keys.length === count && keys.every(isToken)
}

function isEndpoint(endpoint: Endpoint): boolean {
  if ('folder' in endpoint) return isAbsolute(endpoint.folder) && [true, undefined].includes(endpoint.fallback)
  return typeof endpoint.host === 'string' && Number.isInteger(endpoint.port)
}
