import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { userOf } from '../../platform/processes.ts'
import { type Call, gatewayUnreachable } from '../control/calls.ts'
import { startDeadline } from '../control/deadline.ts'
import type { Known } from '../control/known.ts'
import { createListeners, type Listeners } from '../control/listeners.ts'
import type { Log } from '../control/log.ts'
import type { GatewayHome, ProgramOptions, Welcome } from '../control/program.ts'
import type { CallName, InnerCalls, RefusedEndpoint } from '../control/protocol.ts'
import { type Connection, connect, connectionLost, gatewayDismissed, type OnNotice } from './connection.ts'
import { gatewayCommand, launchGateway } from './launch.ts'
import { makeHome } from './place.ts'
import { restore } from './restore.ts'
import type { RunAs } from './run-as.ts'

const firstRetryMs = 50
const adoptRetryMs = 500
const longestRetryMs = 5_000
/** A call fails when no gateway has been reached for this time, or when its connection has broken so often. */
const unreachableMs = 60_000
const mostLosses = 5
/** A gateway that is away or silent for longer is told as a problem: replacing one takes less. */
const tellMs = 3_000

export interface LinkOptions {
  readonly home: GatewayHome
  readonly options: ProgramOptions
  /** The user that the gateway runs as; `null` for the user of the server. */
  readonly runAs: RunAs | null
  /** The epoch of this server's leadership: a gateway refuses servers of older ones than it has seen. */
  readonly epoch: number
  /** How long a gateway that is replaced may finish what it has. */
  readonly retireMs: number
  readonly log: Log
  /** Everything that the gateway should have: filled with what that one has which is found at first. */
  readonly known: Known
}

/** A connection to the gateway that is kept up: a gateway that has ended is started again, with its listeners and routes. */
export interface Link {
  readonly onRefused: Listeners<RefusedEndpoint>['add']
  readonly onUncertified: Listeners<string>['add']
  /**
   * Makes a call. Starts the gateway when the call needs one. A call whose connection breaks is made again; rejects when
   * another server has taken the gateway, and with code `GATEWAY_UNREACHABLE` when none could be reached for a minute.
   */
  readonly call: Call
  /** Connects to a gateway that runs already, if there is one. */
  adopt(): Promise<void>
  /** Returns in a sentence that the gateway, or one of its processes, does not answer; undefined while all do. */
  problem(): string | undefined
  /** Ends the connection; the gateway goes on. */
  leave(): void
}

export function createLink(options: LinkOptions): Link {
  const { home, log, epoch } = options
  const refusals = createListeners<RefusedEndpoint>()
  const uncertified = createListeners<string>()
  const on: OnNotice = { refused: refusals.emit, uncertified: uncertified.emit }
  /** True when a gateway is needed, or was found. */
  let wanted = false
  let isFirst = true
  let ended: Error | null = null
  let isStopped = false
  /** True when the port that all apps share should be open. */
  let isListening = false
  let connection: Connection | null = null
  let connecting: Promise<Connection> | null = null
  /** Since when a connection is needed that is not there. */
  let awaySince = 0

  const ensure = (): Promise<Connection> | Connection => {
    if (connection !== null) return connection
    if (connecting === null) awaySince = performance.now()
    connecting ??= establish().finally(() => {
      connecting = null
    })
    return connecting
  }

  /** Tries until there is a connection to a gateway of this version and these options that has all known apps. */
  async function establish(): Promise<Connection> {
    for (let retryMs = firstRetryMs; ; retryMs = Math.min(retryMs * 2, longestRetryMs)) {
      if (ended !== null) throw ended
      try {
        const next = await begin(options, on, isFirst)
        await restore(next, { known: options.known, isListening }, log)
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
        // The gateway that was asked to stop has ended before it could reply.
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
      // One that was just killed may still accept: its socket goes a moment later.
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

/** Resolves as the connection does; rejects when that takes too long. */
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

/** Returns what a gateway without any app answers. */
function withoutGateway<Name extends CallName>(name: Name): InnerCalls[Name]['result'] {
  if (name === 'route' || name === 'probe') throw new Error('no app is open')
  const empty: InnerCalls['takeTraffic']['result'] = []
  return (name === 'takeTraffic' || name === 'stop' ? empty : null) as InnerCalls[Name]['result']
}

/** Connects to the gateway of this version and these options, which it starts, or puts in the place of another one. */
async function begin(options: LinkOptions, on: OnNotice, isFirst: boolean): Promise<Connection> {
  const { home, known, epoch, runAs, log } = options
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
  if (isFirst) remember(connection.welcome, known)
  if (!isDeepStrictEqual(connection.welcome.options, options.options))
    connection = await replace(options, connection, find)
  return connection
}

/** Fills in what a gateway has. What the server has said itself in the meantime stays. */
function remember({ apps, edge }: Welcome, known: Known): void {
  for (const app of apps) known.apps.set(app.appId, app)
  const has = new Set(known.names.all().map(({ appId }) => appId))
  for (const { appId, names } of edge?.names ?? []) if (!has.has(appId)) known.names.set(appId, names)
  for (const name of edge?.certificates ?? []) if (!known.certificates.has(name)) known.certificates.set(name, null)
  for (const path of edge?.answers ?? []) if (!known.answers.has(path)) known.answers.set(path, null)
}

/** Puts a gateway of this version and these options in the place of another one. */
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
      // The gateway that runs starts the next one, with the rights that it has itself.
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

/** The options that decide about the listening sockets. */
function listening({ host, apps }: ProgramOptions) {
  return { host, mode: apps.mode, port: apps.mode === 'hostnames' ? apps.port : null }
}
