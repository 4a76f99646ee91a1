import { randomInt } from 'node:crypto'
import type { Range } from '../../platform/config.ts'
import type { Transaction } from '../../platform/database.ts'
import { isPortFree } from '../../platform/machine/port.ts'
import type { DatabasesTables } from '../tables.ts'
import { listenAddress } from './cluster-access.ts'

/**
 * Returns the port of a version's cluster. Reserves a free port in `range` permanently when the version has none yet.
 */
export async function clusterPort(transaction: Transaction, version: string, range: Range): Promise<number> {
  const trx = transaction.withTables<DatabasesTables>()
  const find = () =>
    trx.selectFrom('database_clusters').select('port').where('version', '=', version).executeTakeFirst()
  const found = await find()
  if (found !== undefined) return found.port
  const rows = await trx.selectFrom('database_clusters').select('port').execute()
  const port = await freePort(range, new Set(rows.map((row) => row.port)))
  await trx
    .insertInto('database_clusters')
    .values({ version, port })
    .onConflict((conflict) => conflict.column('version').doNothing())
    .execute()
  // Another transaction may have been faster.
  return (await find())?.port ?? port
}

/** Picks at random, so that servers that choose at the same time rarely choose the same port. */
async function freePort({ from, to }: Range, taken: ReadonlySet<number>): Promise<number> {
  for (let attempt = 0; attempt < 100; attempt++) {
    const port = randomInt(from, to + 1)
    if (!taken.has(port) && (await isPortFree(port, listenAddress))) return port
  }
  throw new Error(`No free port was found from ${from} to ${to}. Widen FAIRLEAD_DATABASE_PORTS.`)
}
