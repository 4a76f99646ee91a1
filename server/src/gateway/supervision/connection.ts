import { once } from 'node:events'
import { connect as connectSocket } from 'node:net'
import { dirname } from 'node:path'
import { isPrivateDirectory } from '../../platform/machine/socket-folder.ts'
import type { OsUser } from '../../platform/users.ts'
import { createCalls, type PendingCalls } from '../control/calls.ts'
import { carryLines } from '../control/lines.ts'
import type { FromGateway, GatewayHome, Replace, ToGateway, Welcome } from '../control/program.ts'
import { type CallName, type InnerCalls, protocolVersion, type RefusedEndpoint, siteOf } from '../control/protocol.ts'

const welcomeMs = 10_000

/** The code of the error for calls whose connection has broken: they may be made again on another one. */
export const connectionLost = 'GATEWAY_CONNECTION_LOST'
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

/**
 * Connects to the gateway; resolves with null when none is there. Rejects when it follows another server, or when somebody
 * else could be listening in its place.
 */
export async function connect(
  { socket: path }: GatewayHome,
  {
    epoch,
    onRefused,
    user,
  }: {
    readonly epoch: number
    readonly onRefused: (refused: RefusedEndpoint) => void
    /** The user that the gateway runs as; `null` for the user of the server. */
    readonly user: OsUser | null
  },
): Promise<Connection | null> {
  if (!(await isPrivateDirectory(dirname(path), user))) return null
  const socket = connectSocket(path)
  try {
    await once(socket, 'connect')
  } catch (error) {
    socket.destroy()
    if (['ENOENT', 'ECONNREFUSED', 'ECONNRESET'].includes((error as NodeJS.ErrnoException).code ?? '')) return null
    throw error
  }
  const welcome = Promise.withResolvers<Welcome>()
  const over = Promise.withResolvers<Error>()
  let reason = Object.assign(new Error('the connection to the gateway is lost'), { code: connectionLost })
  let replacing: PromiseWithResolvers<void> | null = null

  const post = carryLines<FromGateway, ToGateway>(socket, (message) => {
    if (message.type === 'welcome') welcome.resolve(message)
    else if (message.type === 'refused') onRefused(message)
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
        if (protocol < protocolVersion && needsNewest(name, parameters)) throw new Error(tooOld)
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

const tooOld =
  'The gateway that runs is of an older version, which serves no static sites, and could not be replaced: its log says why. ' +
  'It is replaced when it is stopped, or when the server starts again.'

/** True for a call that gateways from before static sites do not know. */
function needsNewest(name: CallName, parameters: InnerCalls[CallName]['parameters']): boolean {
  if (name === 'probe') return true
  if (parameters === null || !('upstream' in parameters) || parameters.upstream === null) return false
  return siteOf(parameters.upstream) !== null
}

/** The ids of calls count from one. */
const replaceId = 0
