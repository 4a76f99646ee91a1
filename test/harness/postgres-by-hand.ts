import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, chown, cp, mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { locateBinaries, reachableBinaries } from '../../server/src/platform/postgres/binaries.ts'
import { freePort } from './ports.ts'
import { isRoot, temporaryDirectory } from './temporary.ts'

/** The user needs an account, because PostgreSQL's programs look it up. */
const user = isRoot ? { uid: 65_534, gid: 65_534 } : null

export interface PostgresByHand extends AsyncDisposable {
  /** The administrator's address. */
  readonly url: string
  query(text: string): Promise<unknown[][]>
}

/**
 * Starts a PostgreSQL server as an operator would: on TCP, with passwords, and with no other settings.
 *
 * @param programs the folder of `initdb` and `postgres`; by default Fairlead's programs
 */
export async function postgresByHand(programs?: string): Promise<PostgresByHand> {
  await using cleanup = new AsyncDisposableStack()
  const directory = cleanup.use(await temporaryDirectory())
  const bin = programs ?? (await shippedPrograms(join(directory.path, 'runtime')))
  const data = join(directory.path, 'data')
  await initialise(bin, data)
  const server = cleanup.use(await startServer(bin, data))
  const owned = cleanup.move()
  return {
    url: server.url,
    query: (text) => queryAt(server.url, text),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

export interface PostgresPair extends AsyncDisposable {
  readonly primary: PostgresMember
  /** Replicates the primary, and is read-only until its promotion. */
  readonly standby: PostgresMember
}

export interface PostgresMember {
  readonly port: number
  readonly url: string
  query(text: string): Promise<unknown[][]>
  /** Ends the server and its connections at once. */
  stop(): Promise<void>
}

/** Starts a primary and a standby that follows it. */
export async function postgresPair(): Promise<PostgresPair> {
  await using cleanup = new AsyncDisposableStack()
  const directory = cleanup.use(await temporaryDirectory())
  const bin = await shippedPrograms(join(directory.path, 'runtime'))
  const [first, second] = ['first', 'second'].map((name) => join(directory.path, name)) as [string, string]
  await initialise(bin, first)
  // A copy of a cluster that has never run is a base backup.
  await cp(first, second, { recursive: true })
  await writeFile(join(second, 'standby.signal'), '')
  if (user !== null) await chownAll(second, user)
  await chmod(second, 0o700)
  const primary = cleanup.use(await startServer(bin, first, ['-c', 'synchronous_standby_names=*']))
  const conninfo = `host=127.0.0.1 port=${primary.port} user=admin password='an administrator'`
  const standby = cleanup.use(await startServer(bin, second, ['-c', `primary_conninfo=${conninfo}`]))
  const member = ({ port, url, stop }: RunningPostgres): PostgresMember => ({
    port,
    url,
    stop,
    query: (text) => queryAt(url, text),
  })
  const owned = cleanup.move()
  return { primary: member(primary), standby: member(standby), [Symbol.asyncDispose]: () => owned.disposeAsync() }
}

async function initialise(bin: string, data: string): Promise<void> {
  const passwordFile = `${data}.password`
  await mkdir(data, { mode: 0o700 })
  await writeFile(passwordFile, 'an administrator')
  if (user !== null) await Promise.all([data, passwordFile].map((path) => chown(path, user.uid, user.gid)))
  await chmod(passwordFile, 0o600)
  const initdb = start(join(bin, 'initdb'), [
    ...['-D', data, '--username=admin', '--auth=scram-sha-256', `--pwfile=${passwordFile}`],
    ...['--encoding=UTF8', '--locale=C', '--no-sync'],
  ])
  if ((await ended(initdb)) !== 0) throw new Error('initdb failed')
}

interface RunningPostgres extends AsyncDisposable {
  readonly port: number
  readonly url: string
  stop(): Promise<void>
}

async function startServer(bin: string, data: string, settings: readonly string[] = []): Promise<RunningPostgres> {
  const port = await freePort()
  const server = start(join(bin, 'postgres'), [
    ...['-D', data, '-p', String(port), '-k', data, '-c', 'listen_addresses=127.0.0.1', '-c', 'fsync=off'],
    ...settings,
  ])
  const stop = async () => {
    server.kill('SIGINT')
    await ended(server)
  }
  const url = `postgresql://admin:an%20administrator@127.0.0.1:${port}/postgres`
  try {
    await untilAnswering(url, server)
  } catch (error) {
    await stop()
    throw error
  }
  return { port, url, stop, [Symbol.asyncDispose]: stop }
}

async function queryAt(url: string, text: string): Promise<unknown[][]> {
  const client = new pg.Client(url)
  await client.connect()
  try {
    return (await client.query({ text, rowMode: 'array' })).rows
  } finally {
    await client.end()
  }
}

async function chownAll(directory: string, owner: { uid: number; gid: number }): Promise<void> {
  const names = await readdir(directory, { recursive: true })
  for (const name of ['', ...names]) await chown(join(directory, name), owner.uid, owner.gid)
}

async function shippedPrograms(copyTo: string): Promise<string> {
  return join(await reachableBinaries({ binaries: await locateBinaries(), copyTo, user }), 'bin')
}

function start(program: string, args: readonly string[]): ChildProcess {
  return spawn(program, args, { ...user, cwd: '/', env: { LC_ALL: 'C' }, stdio: 'ignore' })
}

async function ended(child: ChildProcess): Promise<number | null> {
  if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
  return child.exitCode
}

async function untilAnswering(url: string, server: ChildProcess): Promise<void> {
  for (;;) {
    if (server.exitCode !== null) throw new Error('the server has ended')
    const client = new pg.Client(url)
    const answered = await client.connect().then(
      () => true,
      () => false,
    )
    await client.end()
    if (answered) return
    await sleep(20)
  }
}
