import type { Socket } from 'node:net'
import type { Entrance } from '../protocol/program.ts'
import type { Share } from '../routing/listener.ts'

/** A worker with more untaken connections is busy or stopped, and gets no more. */
const MOST_UNTAKEN = 16

/** The worker repeats the id when it has taken the connection. */
export type SendConnection = (connection: { readonly id: number; readonly entrance: Entrance }, socket: Socket) => void

/** A worker, as the main process sees it: the connections that it has not taken yet. */
export interface Receiver {
  taken(id: number): void
  /** The worker has ended: the main process answers the connections that the worker has not taken. */
  leave(): void
}

/**
 * Gives the connections of a listener in turns to all processes. If all of them accepted on one socket, a burst would
 * often go to one process.
 */
export interface Sharing {
  readonly newShare: (entrance: Entrance) => Share
  join(send: SendConnection): Receiver
}

interface Untaken {
  readonly socket: Socket
  readonly takeBack: () => void
}

interface Worker {
  readonly send: SendConnection
  readonly untaken: Map<number, Untaken>
}

export function createSharing(): Sharing {
  const workers: Worker[] = []
  let lastId = 0
  let shares = 0

  return {
    newShare(entrance) {
      // Each listener starts with another process, because many listeners have only one connection.
      let turn = shares
      shares += 1
      return (socket, takeBack) => {
        turn = (turn + 1) % (workers.length + 1)
        const worker = workers[turn]
        if (worker === undefined || worker.untaken.size >= MOST_UNTAKEN) return false
        lastId += 1
        worker.untaken.set(lastId, { socket, takeBack })
        worker.send({ id: lastId, entrance }, socket)
        return true
      }
    },
    join(send) {
      const worker: Worker = { send, untaken: new Map() }
      workers.push(worker)
      const settle = (id: number, settled: (untaken: Untaken) => void) => {
        const untaken = worker.untaken.get(id)
        worker.untaken.delete(id)
        if (untaken !== undefined && !untaken.socket.destroyed) settled(untaken)
      }
      return {
        taken(taken) {
          // Notices arrive in order, so an earlier connection was lost.
          for (const id of worker.untaken.keys()) if (id < taken) settle(id, ({ takeBack }) => takeBack())
          settle(taken, ({ socket }) => socket.destroy())
        },
        leave() {
          workers.splice(workers.indexOf(worker), 1)
          for (const id of [...worker.untaken.keys()]) settle(id, ({ takeBack }) => takeBack())
        },
      }
    },
  }
}
