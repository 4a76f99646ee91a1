import type { Server as NetServer } from 'node:net'
import {
  type AppTraffic,
  addTraffic,
  type CallName,
  type InnerCalls,
  keyOfEndpoint,
  type OpenApp,
  type RefusedEndpoint,
} from '../protocol/calls.ts'
import type { Log } from '../protocol/log.ts'
import type { Handlers } from '../protocol/rpc.ts'
import type { Engine } from '../routing/router.ts'
import { type Peer, peerGone } from './peer.ts'

export interface Member {
  readonly call: Peer['call']
  isSilent(): boolean
  /** Called when a call fails that succeeded in the main process, because the routes of the two may now differ. */
  failed(error: Error): void
}

/** All processes of a gateway as a unit: a call is answered when every process has confirmed it. */
export interface Fleet {
  readonly handlers: Handlers<NetServer>
  /** Gives a new worker all open apps, and every call from now on. */
  join(worker: Member): void
  leave(worker: Member): void
  /** The replaced gateway, while it finishes its requests. It gets all changes, too. */
  setPredecessor(predecessor: Member | null): void
  addTraffic(traffic: readonly AppTraffic[]): void
  /** Reports a refusal from a process: once for each endpoint until its app is routed again. */
  refused(refused: RefusedEndpoint): void
}

export function createFleet(
  engine: Engine,
  { log, onRefused }: { readonly log: Log; readonly onRefused: (refused: RefusedEndpoint) => void },
): Fleet {
  const workers = new Set<Member>()
  let predecessor: Member | null = null
  let added: readonly AppTraffic[] = []
  const reported = new Map<string, Set<string>>()
  const everywhere = createEverywhere(engine, () => [...workers, ...(predecessor === null ? [] : [predecessor])])

  const counts = async (name: 'takeTraffic' | 'stop', parameters: never, signal: AbortSignal) => {
    const taken = added
    added = []
    return sum([taken, ...(await everywhere(name, parameters, signal))])
  }

  return {
    handlers: {
      ...createHandlers(engine, workers, { everywhere, onRoute: (appId) => reported.delete(appId) }),
      takeTraffic: (parameters, signal) => counts('takeTraffic', parameters as never, signal),
      ping: async () => [...workers].filter((worker) => worker.isSilent()).length,
      stop: (parameters, signal) => counts('stop', parameters as never, signal),
    },
    join(worker) {
      for (const app of engine.apps()) void adoptAt(worker, app)
      for (const { name, parameters } of engine.edge.calls({ withCertificates: false }))
        void worker.call(name, parameters).catch(worker.failed)
      workers.add(worker)
    },
    leave: (worker) => void workers.delete(worker),
    setPredecessor(member) {
      predecessor = member
    },
    addTraffic(traffic) {
      added = sum([added, traffic])
    },
    refused(refused) {
      const { appId, deploymentId, endpoint } = refused
      const known = reported.get(appId) ?? new Set()
      const key = `${deploymentId} ${keyOfEndpoint(endpoint)}`
      if (known.has(key)) return
      reported.set(appId, known.add(key))
      log.info({ app: appId, deployment: deploymentId }, 'an instance refused a connection')
      onRefused(refused)
    },
  }
}

const adoptAt = (worker: Member, app: OpenApp) => worker.call('adopt', { app }).then(() => undefined, worker.failed)

/** Calls every process. The main process's result comes first. */
type Everywhere = <Name extends CallName>(
  name: Name,
  parameters: InnerCalls[Name]['parameters'],
  signal: AbortSignal,
) => Promise<[InnerCalls[Name]['result'], ...InnerCalls[Name]['result'][]]>

/** @param members all processes except the main process */
function createEverywhere(engine: Engine, members: () => readonly Member[]): Everywhere {
  return async <Name extends CallName>(name: Name, parameters: InnerCalls[Name]['parameters'], signal: AbortSignal) => {
    const handler = engine.handlers[name] as (
      parameters: unknown,
      signal: AbortSignal,
    ) => Promise<InnerCalls[Name]['result']>
    const own = handler(parameters, signal)
    const succeeded = own.then(
      () => true,
      () => false,
    )
    const others = members().map((member) =>
      member.call(name, parameters, signal).then(
        (result) => [result],
        async (error: Error & { code?: string }) => {
          if (error.code !== peerGone && (await succeeded)) member.failed(error)
          return []
        },
      ),
    )
    const result = await own
    return [result, ...(await Promise.all(others)).flat()]
  }
}

function createHandlers(
  engine: Engine,
  workers: ReadonlySet<Member>,
  { everywhere, onRoute }: { readonly everywhere: Everywhere; readonly onRoute: (appId: string) => void },
): Omit<Handlers<NetServer>, 'takeTraffic' | 'ping' | 'stop'> {
  /** The apps that are being opened in the workers. Further calls for these apps wait. */
  const opening = new Map<string, Promise<unknown>>()
  const adoptAtAll = async (app: OpenApp) => {
    await Promise.all([...workers].map((worker) => adoptAt(worker, app)))
  }
  const openEverywhere = async (parameters: InnerCalls['open']['parameters'], signal: AbortSignal) => {
    await engine.handlers.open(parameters, signal)
    // In the same turn of the event loop, so that the app is there before its first connection.
    await adoptAtAll({ ...parameters, upstream: null })
  }

  return {
    listen: engine.handlers.listen,
    async open(parameters, signal) {
      const { appId } = parameters
      if (engine.isOpen(appId)) {
        await opening.get(appId)
        return null
      }
      const opened = openEverywhere(parameters, signal)
      opening.set(appId, opened)
      try {
        await opened
      } finally {
        opening.delete(appId)
      }
      return null
    },
    async adopt(parameters, signal, socket) {
      await engine.handlers.adopt(parameters, signal, socket)
      if (parameters.app !== null) await adoptAtAll(parameters.app)
      return null
    },
    async route(parameters, signal) {
      if (opening.has(parameters.appId)) await opening.get(parameters.appId)
      onRoute(parameters.appId)
      return (await everywhere('route', parameters, signal))[0]
    },
    drain: async (parameters, signal) => (await everywhere('drain', parameters, signal))[0],
    async close(parameters, signal) {
      if (opening.has(parameters.appId)) await opening.get(parameters.appId)?.catch(() => {})
      return (await everywhere('close', parameters, signal))[0]
    },
    name: async (parameters, signal) => (await everywhere('name', parameters, signal))[0],
    answerAt: async (parameters, signal) => (await everywhere('answerAt', parameters, signal))[0],
    // Only the main process is asked for certificates.
    certify: engine.handlers.certify,
    // All processes have the same rights.
    probe: engine.handlers.probe,
    retire: async (parameters, signal) => (await everywhere('retire', parameters, signal))[0],
  }
}

function sum(counts: readonly (readonly AppTraffic[])[]): AppTraffic[] {
  const sums = new Map<string, AppTraffic>()
  for (const counted of counts.flat()) {
    const before = sums.get(counted.appId)
    sums.set(counted.appId, before === undefined ? counted : addTraffic(before, counted))
  }
  return [...sums.values()]
}
