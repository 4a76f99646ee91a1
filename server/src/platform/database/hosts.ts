import { Socket } from 'node:net'
import { type ConnectionOptions, checkServerIdentity, type PeerCertificate } from 'node:tls'
import { Client, type PoolConfig } from 'pg'

/*
 * An address of PostgreSQL may name a primary and its standbys, as in libpq. The driver supports only one host. Here
 * each new connection goes to the host that currently accepts writes, and so follows a failover.
 */

export interface PostgresHost {
  readonly host: string
  readonly port: number
  readonly url: string
}

const defaultPort = 5432
/** A host that does not answer in time is skipped. */
const probeTimeoutMs = 3_000

/**
 * Splits an address with several hosts (`postgres://user:password@a:5432,b:5433/db`, IPv6 in brackets). Returns none
 * for an address with one host.
 *
 * @throws Error that says what is wrong, without the address, because that holds a password
 */
export function parseHosts(url: string): PostgresHost[] {
  const [, scheme = '', user = '', authority = '', rest = ''] =
    /^(postgres(?:ql)?:\/\/)([^/?#]*@)?([^/?#]*)(.*)$/.exec(url) ?? []
  const texts = authority.split(',')
  if (texts.length === 1) return []
  assertWritable(rest)
  return texts.map((text) => {
    const [, bracketed, plain, port] = /^(?:\[([\da-f:.]+)\]|([^[\]:]+))(?::(\d{1,5}))?$/i.exec(text) ?? []
    const host = bracketed ?? plain
    if (host === undefined || Number(port ?? 1) > 65_535) {
      throw new Error(
        'The hosts of DATABASE_URL must be names or addresses with their ports, joined by commas: host1:5432,host2:5432.',
      )
    }
    return { host: decodeURIComponent(host), port: Number(port ?? defaultPort), url: `${scheme}${user}${text}${rest}` }
  })
}

/** The server writes, so the other values of libpq's `target_session_attrs` make no sense. */
function assertWritable(rest: string): void {
  const parameters = new URLSearchParams(rest.slice(rest.indexOf('?') + 1))
  const attributes = parameters.get('target_session_attrs')
  if (attributes !== null && !['any', 'read-write', 'primary'].includes(attributes)) {
    throw new Error('target_session_attrs in DATABASE_URL must be read-write, because the server writes.')
  }
  if (parameters.has('host') || parameters.has('port')) {
    throw new Error('DATABASE_URL has several hosts: leave out its parameters host and port.')
  }
}

/**
 * Returns the options of pools and single connections for this address. With several hosts, each new connection goes to
 * the host that accepts writes, and is rejected when there is none.
 */
export function connectionTo(url: string): PoolConfig {
  const hosts = parseHosts(url)
  const [first] = hosts
  if (first === undefined) return { connectionString: url }
  const choose = chooseHost(hosts, acceptsWrites)
  const ssl = sslFor(first.url, hosts)
  return {
    connectionString: ssl === undefined ? first.url : withoutSsl(first.url),
    ...(ssl === undefined ? {} : { ssl }),
    stream: () => socketTo(choose),
  }
}

/**
 * Finds the first host that `accepts` approves. It asks the last found host first, so that a host that is down costs
 * time only once. Concurrent calls share one search.
 */
export function chooseHost(
  hosts: readonly PostgresHost[],
  accepts: (host: PostgresHost) => Promise<boolean>,
): () => Promise<PostgresHost> {
  let last: PostgresHost | undefined
  let searching: Promise<PostgresHost> | undefined
  const search = async (): Promise<PostgresHost> => {
    const reasons: string[] = []
    for (const host of [...(last === undefined ? [] : [last]), ...hosts.filter((each) => each !== last)]) {
      try {
        if (await accepts(host)) {
          last = host
          return host
        }
        reasons.push(`${host.host}:${host.port} accepts no writes`)
      } catch (error) {
        reasons.push(`${host.host}:${host.port}: ${(error as Error).message || String(error)}`)
      }
    }
    throw new Error(`No host of DATABASE_URL accepts writes (${reasons.join('; ')})`)
  }
  return () => {
    searching ??= search().finally(() => {
      searching = undefined
    })
    return searching
  }
}

/** `transaction_read_only` is `on` for a standby and for a server that an administrator has made read-only. */
async function acceptsWrites({ url }: PostgresHost): Promise<boolean> {
  const client = new Client({
    connectionString: url,
    application_name: 'fairlead-probe',
    connectionTimeoutMillis: probeTimeoutMs,
    query_timeout: probeTimeoutMs,
  })
  client.on('error', () => undefined)
  try {
    await client.connect()
    const { rows } = await client.query<{ transaction_read_only: string }>('show transaction_read_only')
    return rows[0]?.transaction_read_only === 'off'
  } finally {
    await client.end().catch(() => undefined)
  }
}

/** Connects to the chosen host instead of the driver's. */
function socketTo(choose: () => Promise<PostgresHost>): Socket {
  const socket = new Socket()
  const connect = socket.connect.bind(socket)
  const connectToChosen = () => {
    choose().then(
      ({ host, port }) => {
        // The driver's deadline may have passed.
        if (socket.destroyed) return
        if (host.startsWith('/')) connect(`${host}/.s.PGSQL.${port}`)
        else connect(port, host)
      },
      (error: Error) => socket.destroy(error),
    )
    return socket
  }
  return Object.assign(socket, { connect: connectToChosen as Socket['connect'] })
}

/** The driver compares a certificate with only one host. Here a certificate may match any host of the address. */
function sslFor(url: string, hosts: readonly PostgresHost[]): ConnectionOptions | undefined {
  const { ssl } = new Client({ connectionString: url }) as unknown as { ssl: ConnectionOptions | boolean }
  if (ssl === false) return undefined
  const given: ConnectionOptions = ssl === true ? {} : ssl
  const check = given.checkServerIdentity ?? checkServerIdentity
  const checkAll = (_host: string, certificate: PeerCertificate): Error | undefined => {
    const errors = hosts.map(({ host }) => check(host, certificate))
    return errors.includes(undefined) ? undefined : errors[0]
  }
  // The driver makes `key` non-enumerable, so the spread does not copy it.
  return { ...given, ...(given.key === undefined ? {} : { key: given.key }), checkServerIdentity: checkAll }
}

function withoutSsl(url: string): string {
  const [address = '', query = ''] = url.split('?')
  const kept = query
    .split('&')
    .filter((each) => !/^(ssl|sslmode|sslcert|sslkey|sslrootcert|uselibpqcompat)=/.test(each))
  return kept.length === 0 ? address : `${address}?${kept.join('&')}`
}
