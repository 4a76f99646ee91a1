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

/** The direction that a connection does not pass on: from its client, or from its server. */
export type Held = 'sent' | 'answers'

/** A TCP proxy between a client and a server that can simulate an unreachable server. */
export interface Relay extends AsyncDisposable {
  /** The proxy's port; 0 on a Unix socket. */
  readonly port: number
  /** Makes the server unreachable: closes every connection, and accepts no new connections. */
  cut(): Promise<void>
  /** Delays all bytes from now on, so that work between two statements takes longer. */
  slow(ms: number): void
  /**
   * Asks about everything that clients send from now on. The first answer other than `null` is final, and applies to
   * its connection.
   */
  holdWhen(decide: (sent: Buffer) => Held | null): void
  /** Passes on the held bytes, and stops asking. */
  release(): void
  restore(): Promise<void>
}

export async function relay(target: NetConnectOpts, address: ListenOptions): Promise<Relay> {
  const open = new Set<Socket>()
  let server: Server
  let port = address.port ?? 0
  let lateMs = 0
  let decide: ((sent: Buffer) => Held | null) | null = null
  let released = Promise.withResolvers<void>()
  const passing = (holds: (chunk: Buffer) => boolean) =>
    new Transform({
      transform(chunk: Buffer, _, done) {
        const late = () => (lateMs === 0 ? done(null, chunk) : void setTimeout(done, lateMs, null, chunk))
        if (holds(chunk)) void released.promise.then(late)
        else late()
      },
    })

  const restore = async () => {
    server = createServer((socket) => {
      const onward = connect(target)
      let held: { readonly which: Held; readonly until: typeof released } | null = null
      const isHeld = (which: Held) => held?.which === which && held.until === released
      const sent = passing((chunk) => {
        const decided = decide?.(chunk) ?? null
        if (decided !== null) {
          decide = null
          held = { which: decided, until: released }
        }
        return isHeld('sent')
      })
      const answers = passing(() => isHeld('answers'))
      for (const [one, other, between] of [
        [socket, onward, sent],
        [onward, socket, answers],
      ] as const) {
        open.add(one)
        one.on('error', () => undefined)
        one.on('close', () => {
          open.delete(one)
          other.destroy()
        })
        one.pipe(between).pipe(other)
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
  const holdWhen: Relay['holdWhen'] = (ask) => {
    decide = ask
  }
  const release = () => {
    decide = null
    released.resolve()
    released = Promise.withResolvers<void>()
  }
  return { port, cut, slow, holdWhen, release, restore, [Symbol.asyncDispose]: cut }
}
