import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { join } from 'node:path'

export interface DatabaseProxy extends AsyncDisposable {
  /** Leads through the proxy; for `DATABASE_URL`. */
  readonly url: string
  /** The database is away: every connection breaks, and there are no new ones. */
  cut(): Promise<void>
  restore(): Promise<void>
}

/** Stands between a server and the database at `url`, which is on a Unix socket; `directory` gets another socket. */
export async function databaseProxy(url: string, directory: string): Promise<DatabaseProxy> {
  const address = new URL(url)
  const name = `.s.PGSQL.${address.port}`
  const target = join(address.searchParams.get('host') ?? '', name)
  const path = join(directory, name)
  const open = new Set<Socket>()
  let server: Server

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
    server.listen(path)
    await once(server, 'listening')
  }
  const cut = async () => {
    if (!server.listening) return
    const closed = once(server, 'close')
    server.close()
    for (const socket of open) socket.destroy()
    await closed
    await rm(path, { force: true })
  }
  await restore()
  address.searchParams.set('host', directory)
  return { url: address.href, cut, restore, [Symbol.asyncDispose]: cut }
}
