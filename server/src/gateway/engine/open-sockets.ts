import type { Socket } from 'node:net'

/** The connections of a listener that are open in this process. */
export interface OpenSockets {
  add(socket: Socket): void
  destroyAll(): void
  /** Resolves as soon as none is open; at once when none is. */
  none(): Promise<void>
}

export function createOpenSockets(): OpenSockets {
  const sockets = new Set<Socket>()
  const waiting: (() => void)[] = []
  return {
    add(socket) {
      sockets.add(socket)
      socket.on('close', () => {
        sockets.delete(socket)
        if (sockets.size === 0) for (const resolve of waiting.splice(0)) resolve()
      })
    },
    destroyAll() {
      for (const socket of sockets) socket.destroy()
    },
    async none() {
      if (sockets.size > 0) await new Promise<void>((resolve) => waiting.push(resolve))
    },
  }
}
