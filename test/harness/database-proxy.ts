import { join } from 'node:path'
import { type Relay, relay } from './relay.ts'

export interface DatabaseProxy extends Relay {
  /** The database's address through the proxy, for `DATABASE_URL`. */
  readonly url: string
}

/** Starts a proxy to the database at `url`, which is on a Unix socket. The proxy listens on a socket in `directory`. */
export async function databaseProxy(url: string, directory: string): Promise<DatabaseProxy> {
  const address = new URL(url)
  const name = `.s.PGSQL.${address.port}`
  const target = join(address.searchParams.get('host') ?? '', name)
  const made = await relay({ path: target }, { path: join(directory, name) })
  address.searchParams.set('host', directory)
  return { ...made, url: address.href }
}
