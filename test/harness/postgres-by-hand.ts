import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, chown, mkdir, writeFile } from 'node:fs/promises'
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
 * @param programs the folder of `initdb` and `postgres`; by default those that ship with Fairlead
 */
export async function postgresByHand(programs?: string): Promise<PostgresByHand> {
  await using cleanup = new AsyncDisposableStack()
  const directory = cleanup.use(await temporaryDirectory())
  const bin = programs ?? (await shippedPrograms(join(directory.path, 'runtime')))
  const data = join(directory.path, 'data')
  const passwordFile = join(directory.path, 'password')
  await mkdir(data, { mode: 0o700 })
  await writeFile(passwordFile, 'an administrator')
  if (user !== null) await Promise.all([data, passwordFile].map((path) => chown(path, user.uid, user.gid)))
  await chmod(passwordFile, 0o600)
  const initdb = start(join(bin, 'initdb'), [
    ...['-D', data, '--username=admin', '--auth=scram-sha-256', `--pwfile=${passwordFile}`],
    ...['--encoding=UTF8', '--locale=C', '--no-sync'],
  ])
  if ((await ended(initdb)) !== 0) throw new Error('initdb failed')

  const port = await freePort()
  const server = start(join(bin, 'postgres'), [
    ...['-D', data, '-p', String(port), '-k', data, '-c', 'listen_addresses=127.0.0.1', '-c', 'fsync=off'],
  ])
  cleanup.defer(async () => {
    server.kill('SIGINT')
    await ended(server)
  })
  const url = `postgresql://admin:an%20administrator@127.0.0.1:${port}/postgres`
  await untilAnswering(url, server)
  const owned = cleanup.move()
  return {
    url,
    async query(text) {
      const client = new pg.Client(url)
      await client.connect()
      try {
        return (await client.query({ text, rowMode: 'array' })).rows
      } finally {
        await client.end()
      }
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
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
