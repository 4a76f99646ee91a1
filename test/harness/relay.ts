import { once } from 'node:events'
import {
  type AddressInfo,
  connect,
  createServer,
  type ListenOptions,
  type NetConnectOpts,
  type Server,
  type Socket,
} from 'node:net'

/** Stands between a client and a server, and can go away. */
export interface Relay extends AsyncDisposable {
  /** Where it listens; 0 on a Unix socket. */
  readonly port: number
  /** The server is away: every connection breaks, and there are no new ones. */
  cut(): Promise<void>
  /** At the same place again. */
  restore(): Promise<void>
}

export async function relay(target: NetConnectOpts, place: ListenOptions): Promise<Relay> {
  const open = new Set<Socket>()
  let server: Server
  let port = place.port ?? 0

  const restore = async () => {
    server = createServer((socket) => {
      const onward = connect(target)
      for (const [one, other] of [
        [socket, onward],
        [onward, socket],
      ] as const) {
        open.add(one)
        one.on('error', () => undefined)
        one.on('close', () => {
          open.delete(one)
          other.destroy()
        })
        one.pipe(other)
      }
    })
    server.listen(place.path === undefined ? { ...place, port } : place)
    await once(server, 'listening')
    const address = server.address() as AddressInfo | string
    if (typeof address !== 'string') port = address.port
  }
  const cut = async () => {
    if (!server.listening) return
    const closed = once(server, 'close')
    server.close()
    for (const socket of open) socket.destroy()
    await closed
  }
  await restore()
  return { port, cut, restore, [Symbol.asyncDispose]: cut }
}
