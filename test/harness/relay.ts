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
import { Transform } from 'node:stream'

/** A TCP proxy between a client and a server that can simulate an unreachable server. */
export interface Relay extends AsyncDisposable {
  /** The port that it listens on; 0 on a Unix socket. */
  readonly port: number
  /** Makes the server unreachable: closes every connection, and accepts no new ones. */
  cut(): Promise<void>
  /** Passes all bytes on this late from now on, so that what happens between two statements takes longer. */
  slow(ms: number): void
  /** Listens again at the same address. */
  restore(): Promise<void>
}

export async function relay(target: NetConnectOpts, address: ListenOptions): Promise<Relay> {
  const open = new Set<Socket>()
  let server: Server
  let port = address.port ?? 0
  let lateMs = 0
  const late = () =>
    new Transform({
      transform(chunk, _, done) {
        if (lateMs === 0) done(null, chunk)
        else setTimeout(done, lateMs, null, chunk)
      },
    })

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
        one.pipe(late()).pipe(other)
      }
    })
    server.listen(address.path === undefined ? { ...address, port } : address)
    await once(server, 'listening')
    const bound = server.address() as AddressInfo | string
    if (typeof bound !== 'string') port = bound.port
  }
  const cut = async () => {
    if (!server.listening) return
    const closed = once(server, 'close')
    server.close()
    for (const socket of open) socket.destroy()
    await closed
  }
  await restore()
  const slow = (ms: number) => {
    lateMs = ms
  }
  return { port, cut, slow, restore, [Symbol.asyncDispose]: cut }
}
