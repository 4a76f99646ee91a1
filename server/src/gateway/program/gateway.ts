import { killGroup } from '../../platform/processes.ts'
import type { Log } from '../control/log.ts'
import { type Assignment, edgeSocketsOf } from '../control/program.ts'
import { protocolVersion } from '../control/protocol.ts'
import { logOf } from '../control/spawn.ts'
import { createEngine, type Engine } from '../engine/engine.ts'
import { type ControlServer, createControlServer } from './control-server.ts'
import { createFleet, type Fleet } from './fleet.ts'
import { createHome, type Home } from './home.ts'
import { createLog, openLogFile } from './log.ts'
import type { Peer } from './peer.ts'
import { createQuestions, type Questions } from './questions.ts'
import { engineOptions } from './settings.ts'
import { createSharing } from './sharing.ts'
import { listenAt } from './socket-file.ts'
import { handOver } from './succession.ts'
import { startWorkers, type Workers } from './workers.ts'

type Start = Extract<Assignment, { type: 'start' | 'succeed' }>

/** How long requests may take to end when the program is asked to end by a signal, or has lost its place. */
const FINISH_MS = 10_000
/** A gateway that was replaced, and answers nothing for this time, is ended. As for workers. */
const PREDECESSOR_SILENT_MS = 5_000
/** How long the last replies may take to reach their servers. */
const FLUSH_MS = 1_000

/** Runs a gateway until it is stopped, replaced, or its place is taken or removed. `starter` is who started it. */
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
  home.watch(
    () => void ending.finish(control, 'one of its sockets was removed, or replaced by that of another gateway'),
  )
  process.once('SIGTERM', () => void ending.finish(control, 'it was asked to by a signal'))
  log.info({ version: options.version, workers: options.workers }, 'the gateway is ready')
  if (start.type === 'succeed') return
  starter.post({ type: 'ready' })
  process.disconnect()
}

/** Makes everything that answers requests and questions, and starts the workers. `notify` tells the server. */
function startAnswering({ home, options }: Start, notify: ControlServer['notify']) {
  const write = openLogFile(logOf(home))
  const log = createLog(write)
  const sharing = createSharing()
  const engine = createEngine({
    ...engineOptions(options),
    log,
    onRefused: (refused) => fleet.refused(refused),
    onEdgeChanged: () => questions.recheck(),
    // One process alone does without the detour.
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

/** Returns a function that listens for an edge, if there is one, beside the paths of its sockets. */
function edgeListening(home: Home, { edge: { listener } }: Engine, questions: Questions): () => Promise<void> {
  return async () => {
    if (listener === null) return
    await home.listenForEdge({ edge: (path) => listener.listen({ path }), questions: questions.listen })
  }
}

/** Receives the listening sockets of the predecessor, and takes its place. */
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
  // It may not have opened what was opened since, so that it refuses some calls.
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

/** Ends the gateway that has started this one, when it hangs while it finishes what it has: every change would wait for it. */
function endPredecessor(pid: number, log: Log): void {
  log.error(
    { pid },
    `the gateway that was replaced has answered nothing for ${PREDECESSOR_SILENT_MS / 1000} s; it is ended`,
  )
  // It is the leader of its group, which the workers are members of.
  if (process.ppid === pid) killGroup(pid)
  process.disconnect()
}

interface Ending {
  /** Exits when the last replies have been sent. */
  exit(control: ControlServer): Promise<void>
  /** Stops as it does when a server asks for it, and exits. */
  finish(control: ControlServer, why: string): Promise<void>
  /** Finishes what was accepted before the successor took over, and exits. */
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
