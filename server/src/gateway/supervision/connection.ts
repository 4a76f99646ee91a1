import { once } from 'node:events'
import { connect as connectSocket, type Socket } from 'node:net'
import { dirname, join } from 'node:path'
import { isPrivateDirectory } from '../../platform/machine/socket-folder.ts'
import { type ProcessIdentity, startTimeOf } from '../../platform/processes.ts'
import type { OsUser } from '../../platform/users.ts'
import { callOverdue, createCalls, type PendingCalls } from '../control/calls.ts'
import { startDeadline } from '../control/deadline.ts'
import { assertEdgeCall } from '../control/edge-calls.ts'
import { carryLines } from '../control/lines.ts'
import type { Log } from '../control/log.ts'
import type { FromGateway, GatewayHome, Replace, ToGateway, Welcome } from '../control/program.ts'
import { type CallName, type InnerCalls, type RefusedEndpoint, siteOf } from '../control/protocol.ts'
import { type Watch, watchAnswers } from '../control/watch.ts'
import { killGateway, readGatewayRecord } from './record.ts'

/** A gateway that answers nothing for this time hangs: it is ended, so that another one can take its place. */
const silentMs = 10_000
/** How long a gateway may take to close a connection that this server has ended. */
const closeMs = 1_000

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
  /** Tells if the gateway answers. */
  readonly watch: Pick<Watch, 'silentForMs' | 'silentOthers'>
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
  readonly log: Log
}

/**
 * Connects to the gateway; resolves with null when none is there. Rejects when it follows another server, or when somebody
 * else could be listening in its place. A gateway that does not answer, now or later, is ended with its workers, and the
 * connection with it.
 */
export async function connect(home: GatewayHome, { epoch, on, user, log }: ConnectOptions): Promise<Connection | null> {
  if (!(await isPrivateDirectory(dirname(home.socket), user))) return null
  const socket = await dial(home.socket)
  if (socket === null) return null
  const uid = user?.uid ?? process.getuid?.()
  const endSilent = (gateway: ProcessIdentity | null): void => {
    const seconds = silentMs / 1000
    log.error({ pid: gateway?.pid }, `the gateway has answered nothing for ${seconds} s; it is ended and replaced`)
    if (gateway !== null) killGateway(gateway, uid)
    socket.destroy()
  }
  const welcome = Promise.withResolvers<Welcome>()
  const over = Promise.withResolvers<Error>()
  let reason = Object.assign(new Error('the connection to the gateway is lost'), { code: connectionLost })
  let replacing: PromiseWithResolvers<void> | null = null

  let received = 0
  const post = carryLines<FromGateway, ToGateway>(socket, (message) => {
    received += 1
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
  const stopWaiting = startDeadline(silentMs, () => {
    void readGatewayRecord(join(home.folder, 'gateway.json'), uid)
      .catch(() => null)
      .then((gateway) => {
        if (received === 0) endSilent(gateway)
      })
  })
  post({ type: 'hello', epoch })
  try {
    const { protocol = 1, pid } = await welcome.promise
    const startTime = startTimeOf(pid)
    const call: Connection['call'] = async (name, parameters, signal) => {
      const missing = missingIn(protocol, name, parameters)
      if (missing !== null) throw tooOld(missing)
      return calls.call(name, parameters, signal).catch((error: NodeJS.ErrnoException) => {
        // The gateway may yet do what was asked. A new connection compares what it does with what it should do.
        if (error.code === callOverdue) socket.destroy()
        throw error
      })
    }
    const watch = watchAnswers(
      { call, received: () => received },
      { silentMs, onSilent: () => endSilent(startTime === null ? null : { pid, startTime }) },
    )
    void over.promise.then(watch.stop)
    return {
      welcome: await welcome.promise,
      call,
      watch,
      replace(request) {
        replacing = Promise.withResolvers()
        post({ type: 'replace', id: replaceId, ...request })
        return replacing.promise
      },
      over: over.promise,
      end() {
        watch.stop()
        socket.end()
        setTimeout(() => socket.destroy(), closeMs).unref()
      },
    }
  } finally {
    stopWaiting()
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
  if (protocol < 4 && name === 'ping') return 'questions whether it answers'
  if (protocol < 3 && name in assertEdgeCall) return 'further host names and no certificates'
  if (protocol >= 2) return null
  if (name === 'probe') return 'static sites'
  if (parameters === null || !('upstream' in parameters) || parameters.upstream === null) return null
  return siteOf(parameters.upstream) === null ? null : 'static sites'
}

/** The ids of calls count from one. */
const replaceId = 0
