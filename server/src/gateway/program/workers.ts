import { type ChildProcess, fork } from 'node:child_process'
import type { Socket } from 'node:net'
import { addressesIn } from '../../platform/outbound.ts'
import type { Log } from '../protocol/log.ts'
import type { Assignment, Notice, ProgramOptions } from '../protocol/program.ts'
import { startDeadline } from '../protocol/rpc.ts'
import { createEngine, type EngineOptions } from '../routing/router.ts'
import type { Fleet, Member } from './fleet.ts'
import { createLog } from './log.ts'
import { createPeer, type Peer } from './peer.ts'
import type { Receiver, Sharing } from './sharing.ts'

/** The shortest time between two starts of a worker, so that a worker that ends at once is not restarted at once. */
const RESTART_MS = 500
/** A worker that is not ready by then is replaced. */
const READY_MS = 15_000
/**
 * A worker that is silent for this time hangs and is replaced, because it blocks every change of a route. The server
 * waits longer before it replaces the whole gateway.
 */
const SILENT_MS = 5_000
/** A worker that is silent for longer is reported to the server. */
const TELL_MS = 1_000
const program = process.argv[1] ?? ''

export interface Workers {
  /** Resolves when each of the first workers is ready or has failed once. */
  readonly ready: Promise<void>
  /** Stops replacing workers: they end with this process. */
  stop(): void
}

export function startWorkers(
  count: number,
  {
    options,
    fleet,
    sharing,
    log,
    write,
  }: {
    readonly options: ProgramOptions
    readonly fleet: Fleet
    readonly sharing: Sharing
    readonly log: Log
    readonly write: (line: string) => void
  },
): Workers {
  let stopped = false

  const start = async (): Promise<void> => {
    const startedAt = performance.now()
    const child = fork(program, ['worker'], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
    let receiver: Receiver | null = null
    const peer = createPeer(child, {
      refused: fleet.refused,
      notice: (notice) => {
        if (notice.type === 'taken connection') receiver?.taken(notice.id)
        else if (notice.type === 'log') write(notice.line)
      },
    })
    const replace = (why: string) => {
      log.error({ worker: child.pid }, `a worker ${why}; it is ended and replaced`)
      child.kill('SIGKILL')
    }
    const stopWaiting = startDeadline(READY_MS, () => replace(`was not ready after ${READY_MS / 1000} s`))
    let member: Member | null = null
    void peer.gone.then(() => {
      stopWaiting()
      if (member !== null) fleet.leave(member)
      receiver?.leave()
      if (stopped) return
      log.error({ worker: child.pid, code: child.exitCode, signal: child.signalCode }, 'a worker has ended')
      setTimeout(() => void start(), Math.max(0, RESTART_MS - (performance.now() - startedAt)))
    })
    const ready = peer.next('ready')
    peer.post({ type: 'work', options })
    await ready.then(
      () => {
        stopWaiting()
        member = memberOf(child, peer, {
          log,
          onSilent: () => replace(`has answered nothing for ${SILENT_MS / 1000} s`),
        })
        fleet.join(member)
        // Messages arrive in order: the apps come first.
        receiver = sharing.join(peer.sendConnection)
      },
      () => {},
    )
  }

  const ready = Promise.all(Array.from({ length: count }, start)).then(() => undefined)
  return {
    ready,
    stop() {
      stopped = true
    },
  }
}

function memberOf(
  child: ChildProcess,
  peer: Peer,
  { log, onSilent }: { readonly log: Log; readonly onSilent: () => void },
): Member {
  const watch = peer.watch({ silentMs: SILENT_MS, onSilent })
  return {
    call: peer.call,
    isSilent: () => watch.silentForMs() > TELL_MS,
    failed(error) {
      log.error({ err: error.message, worker: child.pid }, 'a worker failed on a change and is replaced')
      child.kill('SIGKILL')
    },
  }
}

/** Answers requests besides the main process, which sends it connections. */
export interface Worker {
  onNotice(notice: Notice | Assignment, socket?: Socket): void
}

export function runWorker(peer: Peer, options: ProgramOptions): Worker {
  const log = createLog((line) => peer.post({ type: 'log', line }))
  const engine = createEngine({
    ...engineOptions(options),
    log,
    onRefused: (refused) => peer.post({ type: 'refused', ...refused }),
  })
  peer.serve(engine.handlers)
  void peer.gone.then(() => process.exit())
  peer.post({ type: 'ready' })
  return {
    onNotice(notice, socket) {
      if (notice.type !== 'connection') return
      if (socket !== undefined) engine.take(notice.entrance, socket)
      peer.post({ type: 'taken connection', id: notice.id })
    },
  }
}

export function engineOptions(
  options: ProgramOptions,
): Pick<EngineOptions, 'host' | 'apps' | 'isTrustedProxy' | 'edge'> {
  return {
    host: options.host,
    apps: options.apps,
    isTrustedProxy: addressesIn(options.trustedProxies),
    edge: options.edge,
  }
}
