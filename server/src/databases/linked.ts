import { sql } from 'kysely'
import type { Database, Transaction } from '../platform/database.ts'
import type { SecretBox } from '../platform/secrets.ts'
import { connectionString } from './credentials.ts'
import { loginOf } from './logins.ts'
import type { DatabaseRow, DatabasesTables } from './tables.ts'

/** A database as its linked apps see it. */
export interface LinkedDatabase {
  readonly name: string
  readonly connectionString: string
}

/**
 * Returns a function that reads databases of a project by their ids, without databases that are being deleted. Locks
 * the rows in share mode: a password rotation then waits for releases that get the old password, and finds them.
 */
export function createLinkedDatabases(secrets: SecretBox) {
  return async (
    on: Database | Transaction,
    projectId: string,
    ids: readonly string[],
  ): Promise<ReadonlyMap<string, LinkedDatabase>> => {
    if (ids.length === 0) return new Map()
    const rows = await on
      .withTables<DatabasesTables>()
      .selectFrom('databases')
      .select(['id', 'role_name', 'second_role', 'login', 'name', 'host', 'port', 'password'])
      .where('project_id', '=', projectId)
      .where('status', '<>', 'deleting')
      .where('id', '=', sql<string>`any(${[...ids]}::text[])`)
      .forShare()
      .execute()
    return new Map(rows.map((row) => [row.id, { name: row.name, connectionString: connectionStringOf(secrets, row) }]))
  }
}

export const connectionStringOf = (
  secrets: SecretBox,
  row: Pick<DatabaseRow, 'id' | 'role_name' | 'second_role' | 'login' | 'host' | 'port' | 'password'>,
): string => {
  const { id, role_name: name, host, port, password } = row
  return connectionString({ user: loginOf(row), name, password: secrets.decrypt(password, id), host, port })
}
