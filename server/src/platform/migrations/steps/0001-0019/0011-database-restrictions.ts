import { sql } from 'kysely'
import type { Migration } from 'kysely/migration'

const statements = [
  `alter table databases drop constraint databases_over_limit_check`,
  `alter table databases rename column over_limit to restriction`,
  `update databases set restriction = 'no_login' where restriction = 'closed'`,
  `alter table databases add constraint databases_restriction_check
    check (restriction in ('none', 'read_only', 'no_login'))`,
  // Jobs that are waiting keep their task by its id. The queue makes its own tables later, on a new database.
  `do $$ begin
    if to_regclass('graphile_worker._private_tasks') is not null then
      update graphile_worker._private_tasks set identifier = 'databases.reconcile'
        where identifier = 'databases.settle';
    end if;
  end $$`,
]

/** `restriction` says what a database that is too large may not do; `reconcile` is the name of the job for all states. */
export const databaseRestrictions: Migration = {
  async up(db) {
    for (const statement of statements) await sql.raw(statement).execute(db)
  },
}
