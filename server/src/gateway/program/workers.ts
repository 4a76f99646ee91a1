import { type ChildProcess, fork } from 'node:child_process'
import type { Log } from '../control/log.ts'
import type { ProgramOptions } from '../control/program.ts'
import type { Fleet, Member } from './fleet.ts'
import { createPeer, type Peer } from './peer.ts'
import type { Receiver, Sharing } from './sharing.ts'

/** A worker that lived for less time than this is replaced only after it. */
const RESTART_MS = 500
/** The gateway is one file, which is this process's program, too. */
const program = process.argv[1] ?? ''

export interface Workers {
  /** Resolves when all of the first workers answer, or have failed once. */
  readonly ready: Promise<void>
  /** Lets no worker be replaced any more: they end with this process. */
  stop(): void
}

/** Starts further processes that answer requests, and replaces those that end. */
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
    /** Writes a line to the log of the gateway. */
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
    const member = memberOf(child, peer, log)
    void peer.gone.then(() => {
      fleet.leave(member)
      receiver?.leave()
      if (stopped) return
      log.error({ worker: child.pid, code: child.exitCode, signal: child.signalCode }, 'a worker has ended')
      setTimeout(() => void start(), Math.max(0, RESTART_MS - (performance.now() - startedAt)))
    })
    const ready = peer.next('ready')
    peer.post({ type: 'work', options })
    await ready.then(
      () => {
        fleet.join(member)
        // After the apps: what is sent arrives in order.
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

function memberOf(child: ChildProcess, peer: Peer, log: Log): Member {
  return {
    call: peer.call,
    failed(error) {
      log.error({ err: error.message, worker: child.pid }, 'a worker failed on a change and is replaced')
      child.kill('SIGKILL')
    },
  }
}
