import { createHash } from 'node:crypto'
import pg from 'pg'
import type { AdminConnection } from './admin-connection.ts'
import { closeCatalogue } from './catalogue.ts'

const { escapeIdentifier: id } = pg

const prefix = 'fairlead_empty_'
/** A changed statement leads to a new name, and so to a new template. */
const templateName = `${prefix}${createHash('sha256').update(closeCatalogue).digest('hex').slice(0, 8)}`

/**
 * Returns a function that resolves to the name of an empty database with a closed catalogue, and creates this template
 * if needed. Closing a catalogue takes a connection and nearly as long as creating a database; a copy of the template
 * needs neither.
 */
export function createEmptyTemplate(admin: AdminConnection): (signal: AbortSignal) => Promise<string> {
  const { run, runLong, runInside, query } = admin
  let making: Promise<void> | undefined

  const isReady = async () =>
    (await query('select from pg_database where datname = $1 and datistemplate', [templateName])).length > 0

  const make = async (signal: AbortSignal): Promise<void> => {
    // Templates of other versions of the server, and an unfinished template.
    const others = await query<{ name: string }>(
      'select datname as name from pg_database where starts_with(datname, $1)',
      [prefix],
    )
    for (const other of others) {
      await run(`alter database ${id(other.name)} is_template false`, signal)
      await runLong(`drop database if exists ${id(other.name)} with (force)`, signal)
    }
    await runLong(`create database ${id(templateName)} template template0`, signal)
    await run(`revoke all on database ${id(templateName)} from public`, signal)
    await runInside(templateName, closeCatalogue, signal)
    // Last, because these options mark the template as ready.
    await run(`alter database ${id(templateName)} allow_connections false is_template true`, signal)
  }

  return async (signal) => {
    if (!(await isReady())) {
      // Databases that are created at the same time share one template.
      making ??= make(signal).finally(() => {
        making = undefined
      })
      await making
    }
    return templateName
  }
}
