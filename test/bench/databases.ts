import { execFile } from 'node:child_process'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import pg from 'pg'
import { connect, createdDatabase, query, takenSnapshot } from '../harness/databases.ts'
import { inTime } from './deadline.ts'
import { type Platform, startPlatform } from './platform.ts'
import type { Bench } from './row.ts'
import { median } from './statistics.ts'

const aim = 1.5
const full = { pairs: 15, snapshots: 3, snapshotMegabytes: 256 }
const brief: typeof full = { pairs: 1, snapshots: 1, snapshotMegabytes: 1 }

/** Measures the time from the request to `available`, compared with the same SQL by hand over one open connection. */
export const benchDatabases: Bench = async ({ signal, short }) => {
  const { pairs, snapshots, snapshotMegabytes } = short ? brief : full
  // Deleted databases are removed at once, so that they do not affect the next measurement.
  await using platform = await startPlatform({ FAIRLEAD_DATABASE_RETENTION_DAYS: '0' }, signal)
  const { client, projectId } = platform
  const { id, connection_string } = await inTime(
    'first database',
    signal,
    createdDatabase(client, projectId, { name: 'first' }),
  )
  await using administrator = await administratorOf(platform)

  const byHand = () => provisionByHand(administrator)
  const byFairlead = () => provisionByFairlead(platform, signal)
  if (!short) {
    await byHand()
    await byFairlead()
  }
  const hand: number[] = []
  const fairlead: number[] = []
  for (let pair = 0; pair < pairs; pair++) {
    signal.throwIfAborted()
    hand.push(await inTime('database by hand', signal, settled(byHand, short)))
    fairlead.push(await settled(byFairlead, short))
  }
  const ratios = hand.map((ms, pair) => (fairlead[pair] ?? Number.NaN) / ms)
  const ratio = median(ratios)

  await inTime('filled database', signal, fill(connection_string, snapshotMegabytes))
  const gaps: number[] = []
  for (let n = 0; n < snapshots; n++) {
    signal.throwIfAborted()
    const taken = interruptionBy(connection_string, signal, () => takenSnapshot(client, projectId, id))
    gaps.push(await inTime('snapshot', signal, taken))
  }
  return {
    rows: [
      {
        name: 'databases: create to available, against bare SQL',
        measured: `${ratio.toFixed(2)} ×`,
        aim: { text: `≤ ${aim}`, met: ratio <= aim },
      },
      {
        name: `databases: interruption by a snapshot of ${snapshotMegabytes} MB`,
        measured: `${Math.round(median(gaps))} ms`,
      },
    ],
    notes: [
      `Create: median of ${pairs} pairs in turns (${ratios.map((each) => each.toFixed(2)).join(', ')}), on a warm cluster. ` +
        `By hand ${Math.round(median(hand))} ms (create role, create database, revoke), Fairlead ${Math.round(median(fairlead))} ms; ` +
        `at best ${Math.round(Math.min(...hand))} ms and ${Math.round(Math.min(...fairlead))} ms.`,
      `Interruption: from the last answer of a client that asks again and again to the first one after it, of ${snapshots} snapshots.`,
    ],
  }
}

/**
 * Measures after a sync of the disk. Otherwise the next commit waits until the files of a dropped database are written.
 */
async function settled(measure: () => Promise<number>, short: boolean): Promise<number> {
  // It also waits for the writes of all other programs.
  if (!short) await promisify(execFile)('sync')
  return measure()
}

async function administratorOf({ dataDirectory }: Platform): Promise<pg.Client & AsyncDisposable> {
  const host = join(dataDirectory, 'databases', '18', 'socket')
  const socket = (await readdir(host)).find((name) => /^\.s\.PGSQL\.\d+$/.test(name)) ?? ''
  const port = Number(socket.slice('.s.PGSQL.'.length))
  const client = new pg.Client({ host, port, user: 'fairlead', database: 'postgres' })
  await client.connect()
  return Object.assign(client, { [Symbol.asyncDispose]: () => client.end() })
}

/** Resolves to milliseconds, without the time to drop the database again. */
async function provisionByHand(administrator: pg.Client): Promise<number> {
  const begin = performance.now()
  await administrator.query("create role by_hand login password 'a password that nobody uses'")
  await administrator.query('create database by_hand owner by_hand template template0')
  await administrator.query('revoke all on database by_hand from public')
  const elapsed = performance.now() - begin
  await administrator.query('drop database by_hand')
  await administrator.query('drop role by_hand')
  return elapsed
}

/** Resolves to the milliseconds until the server logs that the database is available. */
async function provisionByFairlead({ client, projectId, server }: Platform, signal: AbortSignal): Promise<number> {
  const params = { project_id: projectId }
  const begin = performance.now()
  const { id } = await client.databases.create({ params, body: { name: 'bench', plan: 'free' } })
  await server.waitForLog((line) => line['msg'] === 'database is available' && line['database'] === id)
  const elapsed = performance.now() - begin
  signal.throwIfAborted()
  await client.databases.delete({ params: { ...params, id } })
  // Ensures that the next measurement starts on an idle machine.
  await server.waitForLog((line) => line['msg'] === 'database was removed' && line['database'] === id)
  return elapsed
}

async function fill(connectionString: string, megabytes: number): Promise<void> {
  // Fills it with rows of about 1 kB that cannot be compressed.
  await query(
    connectionString,
    `create table filling as
     select (select string_agg(md5(random()::text || part || g), '') from generate_series(1, 30) part)
     from generate_series(1, ${megabytes} * 1000) g`,
  )
}

/** Resolves to the longest time between two responses to a client that polls without pause during an operation. */
async function interruptionBy(
  connectionString: string,
  signal: AbortSignal,
  operation: () => Promise<unknown>,
): Promise<number> {
  let done = false
  let longest = 0
  const asking = (async () => {
    let answered = performance.now()
    for (let last = false; !last; ) {
      signal.throwIfAborted()
      last = done
      const isAnswered = await ask(connectionString)
      if (!isAnswered) {
        last = false
        continue
      }
      longest = Math.max(longest, performance.now() - answered)
      answered = performance.now()
    }
  })()
  await operation()
  done = true
  await asking
  return longest
}

async function ask(connectionString: string): Promise<boolean> {
  try {
    await using client = await connect(connectionString)
    await client.query('select 1')
    return true
  } catch {
    return false
  }
}
