import { once } from 'node:events'
import { connect as connectSocket, type Socket } from 'node:net'
import { dirname } from 'node:path'
import { isPrivateDirectory } from '../../platform/machine/socket-folder.ts'
import type { OsUser } from '../../platform/users.ts'
import { createCalls, type PendingCalls } from '../control/calls.ts'
import { assertEdgeCall } from '../control/edge-calls.ts'
import { carryLines } from '../control/lines.ts'
import type { FromGateway, GatewayHome, Replace, ToGateway, Welcome } from '../control/program.ts'
import { type CallName, type InnerCalls, type RefusedEndpoint, siteOf } from '../control/protocol.ts'

const welcomeMs = 10_000

/** The code of the error for calls whose connection has broken: they may be made again on another one. */
export const connectionLost = 'GATEWAY_CONNECTION_LOST'
/** The code of the error for calls that the gateway is too old for. */
export const gatewayTooOld = 'GATEWAY_TOO_OLD'
/** The code of the error for servers that lead the gateway no more. */
export const gatewayDismissed = 'GATEWAY_DISMISSED'

/** A connection to a running gateway that has welcomed this server. */
export interface Connection {
  readonly welcome: Welcome
  readonly call: PendingCalls<never>['call']
  /** Asks the gateway to start another one in its place. Rejects when that one did not start. */
  replace(request: Omit<Replace, 'type' | 'id'>): Promise<void>
  /** Resolves with the reason when the connection is over. */
  readonly over: Promise<Error>
  end(): void
}

/** Called with what the gateway tells by itself. */
export interface OnNotice {
  readonly refused: (refused: RefusedEndpoint) => void
  readonly uncertified: (hostname: string) => void
}

export interface ConnectOptions {
  readonly epoch: number
  readonly on: OnNotice
  /** The user that the gateway runs as; `null` for the user of the server. */
  readonly user: OsUser | null
}

/**
 * Connects to the gateway; resolves with null when none is there. Rejects when it follows another server, or when somebody
 * else could be listening in its place.
 */
export async function connect(
  { socket: path }: GatewayHome,
  { epoch, on, user }: ConnectOptions,
): Promise<Connection | null> {
  if (!(await isPrivateDirectory(dirname(path), user))) return null
  const socket = await dial(path)
  if (socket === null) return null
  const welcome = Promise.withResolvers<Welcome>()
  const over = Promise.withResolvers<Error>()
  let reason = Object.assign(new Error('the connection to the gateway is lost'), { code: connectionLost })
  let replacing: PromiseWithResolvers<void> | null = null

  const post = carryLines<FromGateway, ToGateway>(socket, (message) => {
    if (message.type === 'welcome') welcome.resolve(message)
    else if (message.type === 'refused') on.refused(endpointIn(message))
    else if (message.type === 'uncertified') on.uncertified(message.hostname)
    else if (message.type === 'dismissed')
      reason = Object.assign(new Error(message.message), { code: gatewayDismissed })
    else if (message.id !== replaceId) calls.settle(message)
    else if (message.type === 'reply') replacing?.resolve()
    else replacing?.reject(new Error(message.error.message))
  })
  const calls = createCalls<never>(post)
  socket.on('error', () => {})
  socket.on('close', () => {
    for (const waiting of [welcome, replacing]) waiting?.reject(reason)
    calls.fail(reason)
    over.resolve(reason)
  })
  const late = setTimeout(() => socket.destroy(), welcomeMs)
  post({ type: 'hello', epoch })
  try {
    const { protocol = 1 } = await welcome.promise
    return {
      welcome: await welcome.promise,
      async call(name, parameters, signal) {
        const missing = missingIn(protocol, name, parameters)
        if (missing !== null) throw tooOld(missing)
        return calls.call(name, parameters, signal)
      },
      replace(request) {
        replacing = Promise.withResolvers()
        post({ type: 'replace', id: replaceId, ...request })
        return replacing.promise
      },
      over: over.promise,
      end: () => void socket.end(),
    }
  } finally {
    clearTimeout(late)
  }
}

/** Connects to a Unix socket; resolves with null when nobody listens there. */
async function dial(path: string): Promise<Socket | null> {
  const socket = connectSocket(path)
  try {
    await once(socket, 'connect')
    return socket
  } catch (error) {
    socket.destroy()
    if (['ENOENT', 'ECONNREFUSED', 'ECONNRESET'].includes((error as NodeJS.ErrnoException).code ?? '')) return null
    throw error
  }
}

function endpointIn({ appId, deploymentId, endpoint }: RefusedEndpoint): RefusedEndpoint {
  return { appId, deploymentId, endpoint }
}

function tooOld(missing: string): Error {
  const message =
    `The gateway that runs is of an older version, which serves no ${missing}, and could not be replaced: its log says ` +
    'why. It is replaced when it is stopped, or when the server starts again.'
  return Object.assign(new Error(message), { code: gatewayTooOld })
}

/** Returns what a gateway of this version of the calls cannot do of a call; null when it can answer it. */
function missingIn(protocol: number, name: CallName, parameters: InnerCalls[CallName]['parameters']): string | null {
  if (protocol < 3 && name in assertEdgeCall) return 'further host names and no certificates'
  if (protocol >= 2) return null
  if (name === 'probe') return 'static sites'
  if (parameters === null || !('upstream' in parameters) || parameters.upstream === null) return null
  return siteOf(parameters.upstream) === null ? null : 'static sites'
}

/** The ids of calls count from one. */
const replaceId = 0
