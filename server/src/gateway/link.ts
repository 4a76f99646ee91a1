import { once } from 'node:events'
import { connect as connectSocket, type Socket } from 'node:net'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { type ProcessIdentity, startTimeOf, userOf } from '../platform/processes.ts'
import { isPrivateDirectory } from '../platform/socket-folder.ts'
import type { OsUser } from '../platform/users.ts'
import type { DesiredState } from './desired.ts'
import { gatewayCommand, launchGateway, type RunAs } from './launch.ts'
import { makeHome } from './place.ts'
import {
  type CallName,
  type InnerCalls,
  isSameUpstream,
  type OpenApp,
  type RefusedEndpoint,
  type Upstream,
} from './protocol/calls.ts'
import type { Log } from './protocol/log.ts'
import type { FromGateway, GatewayHome, ProgramOptions, Replace, ToGateway, Welcome } from './protocol/program.ts'
import {
  type Call,
  callOverdue,
  carryLines,
  createCalls,
  gatewayUnreachable,
  type PendingCalls,
  startDeadline,
} from './protocol/rpc.ts'
import { type Watch, watchAnswers } from './protocol/watch.ts'
import { killGateway, readGatewayRecord } from './record.ts'

const firstRetryMs = 50
const adoptRetryMs = 500
const longestRetryMs = 5_000
/** A call fails after this time without a gateway, or after this many broken connections. */
const unreachableMs = 60_000
const mostLosses = 5
/** A gateway that is absent or silent for longer becomes a problem. A replacement takes less time. */
const tellMs = 3_000

export interface LinkOptions {
  readonly home: GatewayHome
  readonly options: ProgramOptions
  /** The user that the gateway runs as; `null` for the user of the server. */
  readonly runAs: RunAs | null
  /** A gateway refuses servers with an older epoch than it has seen. */
  readonly epoch: number
  /** The time for a replaced gateway to finish its requests, in milliseconds. */
  readonly retireMs: number
  readonly log: Log
  /** The desired state. At first, a running gateway's state is added. */
  readonly desired: DesiredState
}

/**
 * Restores the connection to the gateway when it breaks. Starts a gateway that has ended again, with its listeners and
 * routes.
 */
export interface Link {
  readonly onRefused: Listeners<RefusedEndpoint>['add']
  readonly onUncertified: Listeners<string>['add']
  /**
   * Makes a call. Starts the gateway when the call needs one, and repeats the call when the connection breaks. Rejects
   * when another server has taken the gateway, and with code `GATEWAY_UNREACHABLE` after a minute without a gateway.
   */
  readonly call: Call
  adopt(): Promise<void>
  /** Returns a sentence when the gateway, or one of its processes, does not answer; undefined while all answer. */
  problem(): string | undefined
  leave(): void
}

export function createLink(options: LinkOptions): Link {
  const { home, log, epoch } = options
  const refusals = createListeners<RefusedEndpoint>()
  const uncertified = createListeners<string>()
  const on: OnNotice = { refused: refusals.emit, uncertified: uncertified.emit }
  /** True when a gateway is needed or was found. */
  let wanted = false
  let isFirst = true
  let ended: Error | null = null
  let isStopped = false
  let isListening = false
  let connection: Connection | null = null
  let connecting: Promise<Connection> | null = null
  let awaySince = 0

  const ensure = (): Promise<Connection> | Connection => {
    if (connection !== null) return connection
    if (connecting === null) awaySince = performance.now()
    connecting ??= establish().finally(() => {
      connecting = null
    })
    return connecting
  }

  /** Retries until it is connected to a gateway of this version, with these options and all apps. */
  async function establish(): Promise<Connection> {
    for (let retryMs = firstRetryMs; ; retryMs = Math.min(retryMs * 2, longestRetryMs)) {
      if (ended !== null) throw ended
      try {
        const next = await begin(options, on, isFirst)
        await restore(next, { desired: options.desired, isListening }, log)
        if (ended !== null) next.end()
        else return keep(next)
      } catch (error) {
        if (isDismissal(error)) ended = error
        else log.error({ err: error }, 'the gateway cannot be reached; it is tried again')
        if (ended !== null) throw ended
      }
      await sleep(retryMs)
    }
  }

  function keep(next: Connection): Connection {
    connection = next
    isFirst = false
    void next.over.then((reason) => {
      connection = null
      if (ended !== null) return
      if (isDismissal(reason)) ended = reason
      else log.warn({ pid: next.welcome.pid }, 'the gateway has ended; another one is started')
      Promise.resolve(ensure()).catch((error) => log.error({ err: error }, 'the gateway follows this server no more'))
    })
    return next
  }

  const call: Call = async (name, parameters, signal) => {
    if (name === 'open' || name === 'listen' || name === 'probe') wanted = true
    for (let losses = 0; ; losses += 1) {
      if (isStopped || (!wanted && ended === null)) return withoutGateway(name)
      if (ended !== null) throw ended
      try {
        const current = ensure()
        return await (current instanceof Promise ? await unlessUnreachable(current) : current).call(
          name,
          parameters,
          signal,
        )
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== connectionLost) throw error
        if (losses === mostLosses) throw unreachable('was lost again and again')
        // The gateway ended before it could reply.
        if (name === 'stop') return withoutGateway(name)
      }
    }
  }

  return {
    async call(name, parameters, signal) {
      const result = await call(name, parameters, signal)
      if (name === 'listen') isListening = true
      if (name === 'stop') {
        isStopped = true
        end()
      }
      return result
    },
    onRefused: refusals.add,
    onUncertified: uncertified.add,
    async adopt() {
      const look = () => connect(home, { epoch, on, user: options.runAs?.user ?? null, log })
      // The socket of a gateway that was just killed disappears a moment later.
      const found = await look().catch(async (error: NodeJS.ErrnoException) => {
        if (error.code !== connectionLost) throw error
        await sleep(adoptRetryMs)
        return look()
      })
      found?.end()
      await found?.over
      if (found === null) return
      wanted = true
      await ensure()
    },
    problem() {
      if (!wanted || ended !== null) return undefined
      if (connection === null) return performance.now() - awaySince > tellMs ? 'the gateway does not run' : undefined
      const { silentForMs, silentOthers } = connection.watch
      if (silentForMs() > tellMs) return 'the gateway does not answer'
      return silentOthers() > 0 ? 'a process of the gateway does not answer' : undefined
    },
    leave: end,
  }

  function end(): void {
    ended ??= Object.assign(new Error('the server has left the gateway'), { code: gatewayDismissed })
    connection?.end()
  }
}

async function unlessUnreachable(connecting: Promise<Connection>): Promise<Connection> {
  const late = Promise.withResolvers<never>()
  const giveUp = () => late.reject(unreachable(`could not be reached for ${unreachableMs / 1000} s`))
  const stopWaiting = startDeadline(unreachableMs, giveUp)
  return Promise.race([connecting, late.promise]).finally(stopWaiting)
}

function unreachable(why: string): Error {
  return Object.assign(new Error(`The gateway ${why}. The log says more.`), { code: gatewayUnreachable })
}

function isDismissal(error: unknown): error is Error {
  return error instanceof Error && (error as NodeJS.ErrnoException).code === gatewayDismissed
}

/** Returns the reply of a gateway without apps. */
function withoutGateway<Name extends CallName>(name: Name): InnerCalls[Name]['result'] {
  if (name === 'route' || name === 'probe') throw new Error('no app is open')
  const empty: InnerCalls['takeTraffic']['result'] = []
  return (name === 'takeTraffic' || name === 'stop' ? empty : null) as InnerCalls[Name]['result']
}

/** Connects to a gateway of this version and these options. Starts it, or lets it replace another gateway. */
async function begin(options: LinkOptions, on: OnNotice, isFirst: boolean): Promise<Connection> {
  const { home, desired, epoch, runAs, log } = options
  const find = () => connect(home, { epoch, on, user: runAs?.user ?? null, log })
  let connection = await find()
  if (connection === null) {
    await launchGateway(home, options, async () => {
      connection = await find()
      return connection === null
    })
    connection ??= await find()
  }
  if (connection === null) throw new Error('the gateway ended right after its start')
  if (isFirst) remember(connection.welcome, desired)
  if (!isDeepStrictEqual(connection.welcome.options, options.options))
    connection = await replace(options, connection, find)
  return connection
}

/** Adds what a gateway has. What the server has requested in the meantime takes precedence. */
function remember({ apps, edge }: Welcome, desired: DesiredState): void {
  for (const app of apps) desired.apps.set(app.appId, app)
  const has = new Set(desired.names.all().map(({ appId }) => appId))
  for (const { appId, names } of edge.names) if (!has.has(appId)) desired.names.set(appId, names)
  for (const name of edge.certificates) if (!desired.certificates.has(name)) desired.certificates.set(name, null)
  for (const path of edge.answers) if (!desired.answers.has(path)) desired.answers.set(path, null)
}

async function replace(
  { home, options, runAs, retireMs, log }: LinkOptions,
  connection: Connection,
  find: () => Promise<Connection | null>,
): Promise<Connection> {
  const { welcome } = connection
  const canShare = isDeepStrictEqual(listening(welcome.options), listening(options))
  log.info({ from: welcome.options.version, to: options.version, pid: welcome.pid }, 'the gateway is replaced')
  if (!canShare) await connection.call('stop', { timeoutMs: retireMs })
  else {
    try {
      await makeHome(home, runAs?.user ?? null)
      // The running gateway starts the next one, with the same rights.
      const command = gatewayCommand(home, runAs, userOf(welcome.pid) === 0)
      await connection.replace({ command, options, retireMs })
    } catch (error) {
      log.error({ err: error }, 'the gateway was not replaced')
      return connection
    }
  }
  await connection.over
  const next = await find()
  if (next !== null) return next
  await launchGateway(home, { options, runAs }, async () => true)
  const launched = await find()
  if (launched === null) throw new Error('the gateway ended right after its start')
  return launched
}

function listening({ host, apps }: ProgramOptions) {
  return { host, mode: apps.mode, port: apps.mode === 'hostnames' ? apps.port : null }
}

/** A gateway that is silent for this time hangs and is killed, so that another can replace it. */
const silentMs = 10_000
/** The time for a gateway to close a connection that this server has closed. */
const closeMs = 1_000

/** The error code of calls whose connection broke. They may be repeated on another connection. */
export const connectionLost = 'GATEWAY_CONNECTION_LOST'
/** The error code for servers that no longer lead the gateway. */
const gatewayDismissed = 'GATEWAY_DISMISSED'

export interface Connection {
  readonly welcome: Welcome
  readonly call: PendingCalls<never>['call']
  /** Asks the gateway to start its successor. Rejects when the successor did not start. */
  replace(request: Omit<Replace, 'type' | 'id'>): Promise<void>
  readonly watch: Pick<Watch, 'silentForMs' | 'silentOthers'>
  /** Resolves with the reason when the connection has ended. */
  readonly over: Promise<Error>
  end(): void
}

interface OnNotice {
  readonly refused: (refused: RefusedEndpoint) => void
  readonly uncertified: (hostname: string) => void
}

export interface ConnectOptions {
  readonly epoch: number
  readonly on: OnNotice
  readonly user: OsUser | null
  readonly log: Log
}

/**
 * Connects to the gateway; resolves with null when there is no gateway. Rejects when the gateway follows another
 * server, or when another user could be listening in its place. A gateway that does not answer, now or later, is killed
 * with its workers, and the connection ends.
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
    const { pid } = await welcome.promise
    const startTime = startTimeOf(pid)
    const call: Connection['call'] = (name, parameters, signal) =>
      calls.call(name, parameters, signal).catch((error: NodeJS.ErrnoException) => {
        // The gateway may still execute the call. A new connection compares its state with the desired state.
        if (error.code === callOverdue) socket.destroy()
        throw error
      })
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

/** Zero is free, because the ids of calls start at one. */
const replaceId = 0

const retryMs = 200

export interface RestoreOptions {
  readonly desired: DesiredState
  readonly isListening: boolean
}

/**
 * Opens and routes what the gateway lacks. Retries an address in use as long as the connection lasts; nothing else
 * waits for it. Rejects when the connection breaks.
 */
export async function restore(
  connection: Connection,
  { desired, isListening }: RestoreOptions,
  log: Log,
): Promise<void> {
  const found = new Map(connection.welcome.apps.map((app) => [app.appId, app]))
  const missing = [...desired.apps.values()].filter((app) => {
    const has = found.get(app.appId)
    return has === undefined || !isSame(has.upstream, app.upstream)
  })
  const puts = missing.map(({ appId }) => async () => {
    const app = desired.apps.get(appId)
    if (app !== undefined) await put(connection, app)
  })
  const work = [...puts, ...edgeWork(connection, desired)]
  // Last, so that the shared port and the edge find everything in place.
  if (isListening) work.push(async () => void (await connection.call('listen', null)))
  await Promise.all(work.map((each) => attempt(each, log)))
}

/**
 * Returns the calls that bring host names, certificates and answers up to date. The gateway reports no contents of
 * certificates and answers, so all known contents are sent again.
 */
function edgeWork(
  { welcome, call }: Connection,
  { names, certificates, answers }: DesiredState,
): (() => Promise<void>)[] {
  const wanted = names.all()
  const found = new Map(welcome.edge.names.map((app) => [app.appId, app.names]))
  const changed = wanted.filter((app) => !isDeepStrictEqual(found.get(app.appId), app.names))
  const gone = [...found.keys()].filter((appId) => names.of(appId).length === 0).map((appId) => ({ appId, names: [] }))
  return [
    ...[...gone, ...changed].map((app) => () => call('name', app)),
    ...[...certificates].map(
      ([name, pem]) =>
        () =>
          pem === null ? null : call('certify', { name, pem }),
    ),
    ...[...answers].map(
      ([path, body]) =>
        () =>
          body === null ? null : call('answerAt', { path, body }),
    ),
  ].map((make) => async () => void (await make()))
}

/**
 * Does the work. After a failure it retries in the background while the caller continues. Rejects when the connection
 * breaks.
 */
async function attempt(work: () => Promise<void>, log: Log): Promise<void> {
  try {
    await work()
  } catch (error) {
    if (isLost(error)) throw error
    log.error({ err: error }, 'the gateway cannot open an address again that it had; it is tried until it can')
    void retry(work)
  }
}

async function retry(work: () => Promise<void>): Promise<void> {
  for (;;) {
    await sleep(retryMs)
    const isOver = await work().then(() => true, isLost)
    if (isOver) return
  }
}

function isLost(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException
  return code === connectionLost || code === gatewayDismissed
}

async function put(connection: Connection, { appId, address, upstream }: OpenApp): Promise<void> {
  // Sent without waiting; they take effect in this order.
  const opened = connection.call('open', { appId, address })
  if (upstream === null) await opened
  else await Promise.all([opened, connection.call('route', { appId, upstream })])
}

function isSame(a: Upstream | null, b: Upstream | null): boolean {
  return a === null || b === null ? a === b : isSameUpstream(a, b)
}

interface Listeners<Event> {
  emit(event: Event): void
  add(listener: (event: Event) => void): () => void
}

export function createListeners<Event>(): Listeners<Event> {
  const listeners = new Set<(event: Event) => void>()
  return {
    emit(event) {
      for (const listener of listeners) listener(event)
    },
    add(listener) {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
  }
}
