import { createHash } from 'node:crypto'
import pg from 'pg'
import { type AdminConnection, ofUsers } from './admin-connection.ts'

const { escapeIdentifier: id } = pg

const isCatalogueOpen = `has_function_privilege('public', 'pg_catalog.pg_lock_status()', 'execute')`

const ownDatabase = '(select d.oid from pg_catalog.pg_database d where d.datname = current_database())'

/**
 * In PostgreSQL's catalogue every role sees the sessions, locks, roles, settings and comments of all databases. This
 * statement closes the catalogue of the current database; it does nothing when it is closed already. It needs a
 * superuser.
 *
 * - `pg_stat_activity`, `pg_locks` and `pg_stat_database` show only the rows of this database, through functions with
 *   the rights of the functions' owner; the functions behind the views are closed. Tools and queues look for their own
 *   rows in these views.
 * - `pg_roles`, `pg_user` and `pg_group` show the session's own role and the roles that belong to no database: pg_dump
 *   looks up owners there.
 * - Tables of comments and settings are closed; `shobj_description` answers only for the session's own database and
 *   role.
 *
 * `pg_database` stays as it is, because psql and pg_dump read it and PostgreSQL has no row security for catalogues: it
 * shows the ids of databases. The new rights become the initial rights, like the rights of extensions. Otherwise
 * pg_dump would add them to the users' dumps, and users could not restore these elsewhere.
 */
export const closeCatalogue = `
do $close$
declare
  item record;
  columns text;
  definition text;
begin
  if not ${isCatalogueOpen} then return; end if;
  perform set_config('allow_system_table_mods', 'on', true);

  for item in select * from (values
      ('pg_stat_activity', 'datid = ${ownDatabase}'),
      ('pg_stat_database', 'datid = ${ownDatabase}'),
      ('pg_locks', 'pid in (select s.pid from pg_stat_get_activity(null) s where s.datid = ${ownDatabase})'))
    as views(name, condition)
  loop
    select string_agg(format('%I %s', attname, format_type(atttypid, atttypmod)), ', ' order by attnum) into columns
      from pg_attribute where attrelid = item.name::regclass and attnum > 0 and not attisdropped;
    definition := rtrim(pg_get_viewdef(item.name::regclass), ';');
    execute format(
      'create function pg_catalog.%I() returns table (%s) language sql stable security definer
       set search_path = pg_catalog, pg_temp
       begin atomic select * from (%s) as every where every.%s; end',
      'own_' || item.name, columns, definition, item.condition);
    execute format('create or replace view pg_catalog.%I as select * from pg_catalog.%I()', item.name, 'own_' || item.name);
  end loop;

  for item in select * from (values ('pg_roles', 'rolname'), ('pg_user', 'usename'), ('pg_group', 'groname'))
    as views(name, key)
  loop
    definition := rtrim(pg_get_viewdef(item.name::regclass), ';');
    execute format(
      'create or replace view pg_catalog.%I with (security_barrier) as
       select * from (%s) as every where every.%I = current_user or not every.%I${ofUsers('').replaceAll("'", "''")}',
      item.name, definition, item.key, item.key);
  end loop;

  create or replace function pg_catalog.shobj_description(oid, name) returns text
    language sql stable strict security definer set search_path = pg_catalog, pg_temp
    begin atomic
      select description from pg_shdescription
      where objoid = $1 and classoid = to_regclass('pg_catalog.' || quote_ident($2))
        and (classoid, objoid) in (
          select 'pg_database'::regclass, oid from pg_database where datname = current_database()
          union all select 'pg_authid'::regclass, oid from pg_authid where rolname = session_user
          union all select 'pg_tablespace'::regclass, oid from pg_tablespace);
    end;

  for item in
    select oid, 'pg_proc'::regclass as class, format('function %s', oid::regprocedure) as name from pg_proc
    where pronamespace = 'pg_catalog'::regnamespace and prolang <> (select oid from pg_language where lanname = 'sql')
      and proname ~ '^(pg_lock_status|pg_prepared_xact|pg_stat_get_(activity|progress_info|wal_senders|backend_.*|db_.*))$'
    union all
    select oid, 'pg_class'::regclass, format('table %s', oid::regclass) from pg_class
    where oid in ('pg_shdescription'::regclass, 'pg_db_role_setting'::regclass, 'pg_shdepend'::regclass)
  loop
    execute format('revoke all on %s from public', item.name);
    delete from pg_init_privs where objoid = item.oid and classoid = item.class and objsubid = 0;
    insert into pg_init_privs (objoid, classoid, objsubid, privtype, initprivs)
      select item.oid, item.class, 0, 'i', acl from (
        select proacl as acl from pg_proc where item.class = 'pg_proc'::regclass and oid = item.oid
        union all select relacl from pg_class where item.class = 'pg_class'::regclass and oid = item.oid) as now
      where acl is not null;
  end loop;
end $close$`

const prefix = 'fairlead_empty_'
/** A changed statement leads to a new template. */
const templateName = `${prefix}${createHash('sha256').update(closeCatalogue).digest('hex').slice(0, 8)}`

/**
 * Returns a function that resolves to the name of an empty database with a closed catalogue, which it creates if
 * needed. To close a catalogue takes a connection, and nearly as long as to create a database; a copy of this template
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
