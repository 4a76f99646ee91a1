import type { Socket } from 'node:net'
import type { Entrance } from '../protocol/program.ts'
import type { Share } from '../routing/listener.ts'

/** A worker that has not taken this many connections gets no further ones: it is busy, or has stopped. */
const MOST_UNTAKEN = 16

/** Sends a connection to a worker, under an id by which the worker says that it has taken it. */
export type SendConnection = (connection: { readonly id: number; readonly entrance: Entrance }, socket: Socket) => void

/** A worker as the main process sees it: the connections that it was sent and has not taken yet. */
export interface Receiver {
  /** The worker has taken a connection. */
  taken(id: number): void
  /** The worker is gone: the connections that it has not taken are answered by the main process. */
  leave(): void
}

/**
 * Divides the connections of each listener among the main process and the workers, in turns. A listening socket that all
 * processes accept on would leave it to chance: a whole burst of connections often goes to one of them.
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
      // The ports begin with different processes: many have no more than one connection.
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
          // They arrive in order, so an earlier one has been lost.
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
