import { once } from 'node:events'
import { WebSocket } from 'ws'

/** WebSockets that stay open, each sending a message five times a second and receiving its echo. */
export interface SocketLoad {
  /** Returns the numbers of closed sockets and of echoed messages since the last call. */
  take(): { readonly closed: number; readonly echoed: number }
  /** Reopens the closed sockets. */
  reopen(): Promise<void>
  stop(): void
}

const everyMs = 200

/** Opens `each` WebSockets to every address. */
export async function startSockets(urls: readonly string[], each: number): Promise<SocketLoad> {
  let closed = 0
  let echoed = 0
  let stopping = false
  const open = new Map<number, WebSocket>()
  const targets = urls.flatMap((url) => Array.from({ length: each }, () => url.replace(/^http/, 'ws')))

  const connect = async (at: number): Promise<void> => {
    const socket = new WebSocket(String(targets[at]))
    await once(socket, 'open')
    open.set(at, socket)
    const timer = setInterval(() => socket.send(String(Date.now())), everyMs)
    socket.on('message', () => {
      echoed += 1
    })
    socket.on('error', () => undefined)
    socket.on('close', () => {
      clearInterval(timer)
      open.delete(at)
      if (!stopping) closed += 1
    })
  }
  const reopen = async () => {
    await Promise.all([...[...targets.keys()]].filter((at) => !open.has(at)).map(connect))
  }
  await reopen()
  return {
    take() {
      const taken = { closed, echoed }
      closed = 0
      echoed = 0
      return taken
    },
    reopen,
    stop() {
      stopping = true
      for (const socket of open.values()) socket.terminate()
    },
  }
}
