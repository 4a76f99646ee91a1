import pg from 'pg'
import { type AdminConnection, isDuplicate } from './admin-connection.ts'

const { escapeIdentifier: id, escapeLiteral: literal } = pg

/** Administers the databases and snapshots of an instance. A snapshot is a database that refuses all connections. */
export interface StoredDatabases {
  /**
   * Creates the database, empty or as a copy of `template`, or restores the deleted database of this name. Resolves to
   * true when it is new and its catalogue is closed.
   */
  ensure(name: string, template: string | null, signal: AbortSignal): Promise<boolean>
  /** Forbids logins of its roles, ends all sessions and renames the database, so that it can be restored later. */
  archive(name: string, roles: readonly string[], signal: AbortSignal): Promise<void>
  /** Removes databases permanently, including archived and half-restored ones. */
  drop(names: readonly string[], signal: AbortSignal): Promise<void>
  closed(names: readonly string[]): Promise<string[]>
  /** Opens a database that a copy had closed. */
  reopen(name: string, signal: AbortSignal): Promise<void>
  /** Copies a database. Its connections end, and it refuses new connections until the copy is complete. */
  copy(source: string, target: string, signal: AbortSignal): Promise<void>
  /** Replaces the content of a database with the content of a copy, once for each `restoreId`. */
  replaceContent(name: string, template: string, restoreId: string, signal: AbortSignal): Promise<void>
}

const reopenMs = 5_000

const archived = (name: string) => `deleted_${name}`
/** The new content, until it gets the database's name. */
const restoring = (name: string) => `restoring_${name}`
/** The former content, until its removal. */
const replaced = (name: string) => `replaced_${name}`

/**
 * Copying whole files takes half as long as writing everything to the log first. A new database refuses connections
 * until its grants are set, because by default every role may connect.
 */
const copyOf = (template: string) => `template ${id(template)} strategy file_copy allow_connections false`
const emptyCopyOf = (template: string) => `template ${id(template)} allow_connections false`
const dropNow = (name: string) => `drop database if exists ${id(name)} with (force)`
/**
 * The job that closes a database opens it again. If its server is killed in between, and the job is not repeated
 * because the snapshot is deleted, `createClosedCheck` finds the database by its row, whose status is `available`.
 */
const close = (name: string) => `alter database ${id(name)} allow_connections false`
const rename = (from: string, to: string) => `alter database ${id(from)} rename to ${id(to)}`

/** @param emptyTemplate resolves to the name of an empty database with a closed catalogue; `null` when there is none */
export function createStoredDatabases(
  admin: AdminConnection,
  emptyTemplate: ((signal: AbortSignal) => Promise<string>) | null,
): StoredDatabases {
  const { run, runLong, runWithoutSessions, databaseExists } = admin
  const reopen = (name: string, signal: AbortSignal) => run(`alter database ${id(name)} allow_connections true`, signal)
  return {
    async ensure(name, template, signal) {
      if (await databaseExists(name)) return false
      if (await databaseExists(archived(name))) {
        await runWithoutSessions(archived(name), rename(archived(name), name), signal)
        return false
      }
      const create = (content: string) =>
        unlessCreated(runLong(`create database ${id(name)} owner ${id(name)} ${content}`, signal))
      if (template === null && emptyTemplate !== null) return create(emptyCopyOf(await emptyTemplate(signal)))
      await create(template === null ? emptyCopyOf('template0') : copyOf(template))
      return false
    },

    async archive(name, roles, signal) {
      const text = 'select rolname as role from pg_roles where rolname = any($1)'
      const found = await admin.query<{ role: string }>(text, [roles])
      for (const { role } of found) await run(`alter role ${id(role)} nologin`, signal)
      // Present when the database was deleted during a restoration.
      for (const unfinished of [restoring(name), replaced(name)]) await runLong(dropNow(unfinished), signal)
      if (!(await databaseExists(name))) return
      await runWithoutSessions(name, rename(name, archived(name)), signal)
    },

    async drop(names, signal) {
      for (const name of names.flatMap((each) => [each, archived(each), restoring(each), replaced(each)])) {
        if (!(await databaseExists(name))) continue
        // The owner may have marked the database as a template, and templates cannot be dropped.
        await run(`alter database ${id(name)} is_template false`, signal)
        await runLong(dropNow(name), signal)
      }
    },

    async closed(names) {
      const text = 'select datname as name from pg_database where not datallowconn and datname = any($1)'
      return (await admin.query<{ name: string }>(text, [names])).map(({ name }) => name)
    },

    reopen,

    async copy(source, target, signal) {
      try {
        if (await databaseExists(target)) return
        await run(close(source), signal)
        const create = `create database ${id(target)} ${copyOf(source)}`
        await unlessCreated(runWithoutSessions(source, create, signal))
      } finally {
        // Also when the server stops: otherwise the database would stay closed until another server leads.
        await reopen(source, AbortSignal.timeout(reopenMs))
      }
    },

    replaceContent: (name, template, restoreId, signal) => replaceContent(admin, { name, template, restoreId }, signal),
  }
}

/**
 * Resolves to false when the database exists: an earlier attempt, whose server died, may still have been creating it.
 */
async function unlessCreated(creation: Promise<void>): Promise<boolean> {
  try {
    await creation
    return true
  } catch (error) {
    if (!isDuplicate(error)) throw error
    return false
  }
}

/**
 * Creates the new content beside the database, which stays in use, then exchanges the names. A comment with the
 * restoration's id tells a repeated call which steps are done.
 */
async function replaceContent(
  { run, runLong, runWithoutSessions, query }: AdminConnection,
  { name, template, restoreId }: { readonly name: string; readonly template: string; readonly restoreId: string },
  signal: AbortSignal,
): Promise<void> {
  const [fresh, old] = [restoring(name), replaced(name)]
  const hasNewContent = async (database: string) => {
    const marked = `select from pg_database where datname = $1 and shobj_description(oid, 'pg_database') = $2`
    return (await query(marked, [database, restoreId])).length > 0
  }
  if (!(await hasNewContent(name))) {
    if (!(await hasNewContent(fresh))) {
      await runLong(dropNow(fresh), signal)
      await unlessCreated(runLong(`create database ${id(fresh)} owner ${id(name)} ${copyOf(template)}`, signal))
      await run(`comment on database ${id(fresh)} is ${literal(restoreId)}`, signal)
    }
    await run(close(name), signal)
    // One transaction, so that a database of this name always exists.
    const swap = [`alter database ${id(name)} is_template false`, rename(name, old), rename(fresh, name)]
    await runWithoutSessions(name, swap.join('; '), signal)
  }
  await runLong(dropNow(old), signal)
}
