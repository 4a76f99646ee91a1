import { Client, type ClientConfig } from 'pg'
import type { Finding } from '../finding.ts'
import type { Logger } from '../logger.ts'

/*
 * PostgreSQL lets every role connect to a new database. Where users' databases are on the state's server, a user could
 * hold the leader's advisory lock and notify servers in its name.
 */

interface Queries {
  query<Row extends object>(text: string): Promise<{ readonly rows: Row[] }>
}

interface PublicAccess {
  readonly name: string
  readonly open: boolean
  readonly own: boolean
}

const question = `
  select quote_ident(datname) as name, pg_has_role(datdba, 'usage') as own,
    has_database_privilege('public', oid, 'connect') or has_database_privilege('public', oid, 'temporary') as open
  from pg_database where datname = current_database()`

async function publicAccess(queries: Queries): Promise<PublicAccess> {
  const { rows } = await queries.query<PublicAccess>(question)
  return rows[0] ?? { name: '', open: false, own: false }
}

const revocation = (name: string) => `revoke connect, temporary on database ${name} from public`

/** Keeps roles without an explicit grant out of the state database when this role owns it; otherwise warns. */
export async function revokePublicAccess(pool: Queries, logger: Pick<Logger, 'info' | 'warn'>): Promise<void> {
  const { name, open, own } = await publicAccess(pool)
  if (!open) return
  if (own) {
    await pool.query(revocation(name))
    logger.info({ database: name }, 'roles without a direct grant can no longer connect to the state database')
  } else {
    logger.warn(
      { database: name },
      `every role can connect to the state database: let its owner run ${revocation(name)}`,
    )
  }
}

const timeoutMs = 5_000

/** Finds out who can connect to the state database of the operator's server. Changes nothing. */
export async function stateDatabaseFinding(connection: ClientConfig): Promise<Finding> {
  const subject = 'state database'
  const client = new Client({ ...connection, connectionTimeoutMillis: timeoutMs, query_timeout: timeoutMs })
  client.on('error', () => undefined)
  try {
    await client.connect()
    const { name, open, own } = await publicAccess(client)
    if (!open) return { subject, state: 'ok', found: 'closed to roles without a grant' }
    const remedy = own ? 'the server closes it at its start' : `let its owner run: ${revocation(name)}`
    const cost = `a role of users' databases on the same PostgreSQL server can hold the lock of the leader: ${remedy}.`
    return { subject, state: 'missing', found: 'open to every role', cost }
  } catch (error) {
    const cost = `the server cannot start without it: ${(error as Error).message}`
    return { subject, state: 'broken', found: 'DATABASE_URL cannot be reached', cost }
  } finally {
    await client.end().catch(() => undefined)
  }
}
