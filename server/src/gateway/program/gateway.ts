import { renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { bootId, startTimeOf } from '../../platform/processes/stat.ts'
import { killGroup } from '../../platform/processes.ts'
import { protocolVersion } from '../protocol/calls.ts'
import type { Log } from '../protocol/log.ts'
import {
  type Assignment,
  edgeSocketsOf,
  type GatewayHome,
  logOf,
  type Replace,
  spawnGateway,
} from '../protocol/program.ts'
import { createEngine, type Engine } from '../routing/router.ts'
import { type ControlServer, createControlServer } from './control-server.ts'
import { createFleet, type Fleet } from './fleet.ts'
import { createLog, openLogFile } from './log.ts'
import { createPeer, type Peer } from './peer.ts'
import { createQuestions, type Questions } from './questions.ts'
import { createSharing } from './sharing.ts'
import { createSocketFile, listenAt, type SocketFile } from './socket-file.ts'
import { engineOptions, startWorkers, type Workers } from './workers.ts'

type Start = Extract<Assignment, { type: 'start' | 'succeed' }>

/** The time for requests to finish after a signal, or after another gateway has taken this one's paths. */
const FINISH_MS = 10_000
/** A silent predecessor is killed, like a worker. */
const PREDECESSOR_SILENT_MS = 5_000
/** The time for the last replies to reach their servers. */
const FLUSH_MS = 1_000

/**
 * Runs until the gateway is stopped or replaced, or its paths are taken or removed. `starter` is the process that
 * started it.
 */
export async function runGateway(starter: Peer, start: Start): Promise<void> {
  const { home: place, options } = start
  const startedAt = new Date().toISOString()
  const home = createHome(place)
  const { log, engine, fleet, questions, workers } = startAnswering(start, (notice) => control.notify(notice))
  const listenForEdge = edgeListening(home, engine, questions)
  const leaveQuestions = () => questions.retire(edgeSocketsOf(place).questions)
  const ending = createEnding({ home, fleet, workers, log, leaveQuestions })

  let successor: { readonly peer: Peer; readonly retireMs: number } | null = null
  const control: ControlServer = createControlServer({
    handlers: {
      ...fleet.handlers,
      async listen(parameters, signal) {
        await listenForEdge()
        home.takeEdge()
        return fleet.handlers.listen(parameters, signal)
      },
    },
    describe: () => ({
      pid: process.pid,
      startedAt,
      options,
      apps: engine.apps(),
      protocol: protocolVersion,
      edge: engine.edge.state(),
    }),
    onWelcomed: questions.retell,
    async replace(request) {
      const peer = await handOver(request, { home: place, engine, fleet, epoch: control.epoch() }).catch((error) => {
        log.error({ err: error.message }, 'the gateway was not replaced')
        throw error
      })
      successor = { peer, retireMs: request.retireMs }
    },
    onStopped: () => void ending.exit(control),
    onReplaced() {
      log.info({}, 'another gateway has taken over')
      if (successor !== null) void ending.retire(control, successor.peer, successor.retireMs)
    },
    epoch: start.type === 'succeed' ? start.epoch : 0,
  })
  await home.listen((path) => listenAt(control.server, path))
  if (start.type === 'succeed') await listenForEdge()
  await workers.ready
  if (start.type === 'succeed') await succeed(starter, { fleet, log }, () => home.take({ ...options, startedAt }))
  else home.take({ ...options, startedAt })
  home.watch(() => void ending.finish(control, 'one of its sockets was removed, or replaced by another gateway'))
  process.once('SIGTERM', () => void ending.finish(control, 'it was asked to by a signal'))
  log.info({ version: options.version, workers: options.workers }, 'the gateway is ready')
  if (start.type === 'succeed') return
  starter.post({ type: 'ready' })
  process.disconnect()
}

function startAnswering({ home, options }: Start, notify: ControlServer['notify']) {
  const write = openLogFile(logOf(home))
  const log = createLog(write)
  const sharing = createSharing()
  const engine = createEngine({
    ...engineOptions(options),
    log,
    onRefused: (refused) => fleet.refused(refused),
    onEdgeChanged: () => questions.recheck(),
    ...(options.workers > 1 && { newShare: sharing.newShare }),
  })
  const fleet: Fleet = createFleet(engine, { log, onRefused: (refused) => notify({ type: 'refused', ...refused }) })
  const questions: Questions = createQuestions({
    edge: engine.edge,
    tell: (hostname) => notify({ type: 'uncertified', hostname }),
    log,
  })
  const workers = startWorkers(options.workers - 1, { options, fleet, sharing, log, write })
  return { log, engine, fleet, questions, workers }
}

/** Returns a function that listens for an edge, if there is one, at temporary paths. */
function edgeListening(home: Home, { edge: { listener } }: Engine, questions: Questions): () => Promise<void> {
  return async () => {
    if (listener === null) return
    await home.listenForEdge({ edge: (path) => listener.listen({ path }), questions: questions.listen })
  }
}

/** Receives the predecessor's listening sockets, then takes over its paths. */
async function succeed(
  predecessor: Peer,
  { fleet, log }: { readonly fleet: Fleet; readonly log: Log },
  takePlace: () => void,
): Promise<void> {
  const pid = process.ppid
  const take = predecessor.next('take')
  predecessor.serve(fleet.handlers)
  predecessor.post({ type: 'ready' })
  await take
  takePlace()
  // Errors are ignored: the predecessor refuses calls for apps that were opened after the handover.
  fleet.setPredecessor({ call: predecessor.call, isSilent: () => false, failed: () => {} })
  const silentMs = PREDECESSOR_SILENT_MS
  predecessor.watch({ silentMs, onSilent: () => endPredecessor(pid, log) })
  predecessor.next('left').then(
    ({ traffic }) => fleet.addTraffic(traffic),
    () => {},
  )
  void predecessor.gone.then(() => fleet.setPredecessor(null))
  predecessor.post({ type: 'taken' })
}

/** Kills the replaced gateway, which started this one, when it hangs: every change would wait for it. */
function endPredecessor(pid: number, log: Log): void {
  log.error(
    { pid },
    `the gateway that was replaced has answered nothing for ${PREDECESSOR_SILENT_MS / 1000} s; it is ended`,
  )
  // The predecessor leads its process group, which includes its workers.
  if (process.ppid === pid) killGroup(pid)
  process.disconnect()
}

interface Ending {
  exit(control: ControlServer): Promise<void>
  /** Stops as if a server asked for it, and exits. */
  finish(control: ControlServer, why: string): Promise<void>
  /** Finishes the accepted connections, and exits. */
  retire(control: ControlServer, successor: Peer, timeoutMs: number): Promise<void>
}

function createEnding({
  home,
  fleet,
  workers,
  log,
  leaveQuestions,
}: {
  readonly home: Home
  readonly fleet: Fleet
  readonly workers: Workers
  readonly log: Log
  /** Resolves when the successor answers all questions. */
  readonly leaveQuestions: () => Promise<void>
}): Ending {
  const { signal } = new AbortController()

  const exit: Ending['exit'] = async (control) => {
    workers.stop()
    home.leave()
    setTimeout(() => process.exit(), FLUSH_MS)
    await control.close()
    process.exit()
  }

  return {
    exit,
    async finish(control, why) {
      log.info({}, `the gateway ends: ${why}`)
      workers.stop()
      home.leave()
      await fleet.handlers.stop({ timeoutMs: FINISH_MS }, signal)
      await exit(control)
    },
    async retire(control, successor, timeoutMs) {
      workers.stop()
      home.leave()
      void control.close()
      await Promise.all([fleet.handlers.retire({ timeoutMs }, signal), leaveQuestions()])
      successor.post({ type: 'left', traffic: await fleet.handlers.takeTraffic(null, signal) })
      log.info({}, 'the gateway that was replaced has nothing left to finish and ends')
      setTimeout(() => process.exit(), FLUSH_MS)
    },
  }
}

/** A successor that is not ready by then is killed, and the old gateway continues. */
const DEADLINE_MS = 15_000

/**
 * Starts a successor and sends it the listening sockets. Both processes share the sockets, so that one of them answers
 * each waiting connection. Resolves when the successor has taken the control socket. If it does not become ready,
 * rejects and changes nothing.
 */
async function handOver(
  { command, options }: Replace,
  {
    home,
    engine,
    fleet,
    epoch,
  }: {
    readonly home: GatewayHome
    readonly engine: Engine
    readonly fleet: Fleet
    readonly epoch: number
  },
): Promise<Peer> {
  const child = spawnGateway(command, home)
  const peer = createPeer(child)
  const late = Promise.withResolvers<never>()
  const deadline = setTimeout(
    () => late.reject(new Error(`it was not ready after ${DEADLINE_MS / 1000} s`)),
    DEADLINE_MS,
  )
  try {
    const ready = peer.next('ready')
    peer.serve(fleet.handlers)
    peer.post({ type: 'succeed', home, options, epoch })
    await Promise.race([ready, late.promise])
    const adopted = engine
      .apps()
      .map((app) => peer.call('adopt', { app }, undefined, engine.socketOf(app.appId) ?? undefined))
    if (options.edge) {
      for (const { name, parameters } of engine.edge.calls({ withCertificates: true }))
        adopted.push(peer.call(name, parameters))
    }
    // Last, because requests for all apps arrive from now on.
    const shared = engine.sharedSocket()
    if (shared !== null) adopted.push(peer.call('adopt', { app: null }, undefined, shared))
    await Promise.race([Promise.all(adopted), late.promise])
    const taken = peer.next('taken')
    peer.post({ type: 'take' })
    await Promise.race([taken, late.promise])
    child.unref()
    return peer
  } catch (error) {
    child.kill('SIGKILL')
    throw new Error(
      `The new gateway (${command.join(' ')}) did not start: ${(error as Error).message}. ` +
        `The old one goes on; see ${logOf(home)}.`,
    )
  } finally {
    clearTimeout(deadline)
  }
}

const WATCH_MS = 500

export type ListenAt = (path: string) => Promise<void>

interface Home {
  listen(control: ListenAt): Promise<void>
  listenForEdge(sockets: { readonly edge: ListenAt; readonly questions: ListenAt }): Promise<void>
  /** Moves all sockets to their final paths, in place of another gateway's sockets, and writes the record. */
  take(about: { readonly version: string; readonly startedAt: string }): void
  /** Moves the sockets for an edge to their final paths. */
  takeEdge(): void
  /** Calls `onLost` when a path is gone or names the socket of another gateway. */
  watch(onLost: () => void): void
  leave(): void
}

function createHome(home: GatewayHome): Home {
  const { pid } = process
  const state = join(home.folder, 'gateway.json')
  const paths = edgeSocketsOf(home)
  const control = createSocketFile(home.socket, `${home.socket}.${pid}`)
  // Not longer than the temporary path of the control socket, for which the folder was chosen.
  const beside = (path: string) => path.replace(/\.sock$/, `.${pid}`)
  const edge = createSocketFile(paths.edge, beside(paths.edge))
  const questions = createSocketFile(paths.questions, beside(paths.questions))
  const listening = new Set<SocketFile>()
  let listeningForEdge: Promise<void> | null = null
  let watching: NodeJS.Timeout | undefined

  const listenBeside = async (file: SocketFile, listen: ListenAt): Promise<void> => {
    if (listening.has(file)) return
    await file.listen(listen)
    listening.add(file)
  }
  const takeEdge = () => {
    for (const file of [questions, edge]) if (listening.has(file)) file.take()
  }

  return {
    listen: (listen) => listenBeside(control, listen),
    listenForEdge(sockets) {
      listeningForEdge ??= listenBeside(questions, sockets.questions)
        .then(() => listenBeside(edge, sockets.edge))
        .catch((error) => {
          listeningForEdge = null
          throw error
        })
      return listeningForEdge
    },
    take({ version, startedAt }) {
      const written = `${state}.${pid}`
      const record = { pid, startTime: startTimeOf(pid), boot: bootId(), startedAt, version }
      writeFileSync(written, `${JSON.stringify(record)}\n`, { mode: 0o600 })
      takeEdge()
      control.take()
      renameSync(written, state)
    },
    takeEdge,
    watch(onLost) {
      watching = setInterval(() => {
        if (![...listening].some((file) => file.isLost())) return
        clearInterval(watching)
        onLost()
      }, WATCH_MS)
    },
    leave() {
      clearInterval(watching)
      edge.leave()
      questions.leave()
      if (control.leave()) rmSync(state, { force: true })
    },
  }
}
