import { sql } from 'kysely'
import type { Migration } from 'kysely/migration'

const statements = [
  `alter table deployments drop constraint deployments_status_check`,
  `alter table deployments add constraint deployments_status_check
    check (status in ('building', 'running', 'failed', 'canceled', 'superseded', 'stopped'))`,
  `alter table apps add column intents integer not null default 0`,
  `alter table deployments
    add column account_id text collate "C" references accounts,
    add column intent integer,
    add column retained boolean not null default false,
    add column git_token bytea`,
  `update deployments set
    account_id = (select account_id from projects where projects.id = deployments.project_id),
    intent = (select count(*) from deployments earlier
              where earlier.app_id = deployments.app_id and earlier.id <= deployments.id),
    retained = status = 'running'`,
  `update apps set intents = (select count(*) from deployments where deployments.app_id = apps.id)`,
  `alter table deployments alter column account_id set not null, alter column intent set not null`,
  // What is wanted of an app has one order.
  `create unique index deployments_intent on deployments (app_id, intent)`,
  `create index deployments_building on deployments (account_id) where status = 'building'`,
]

/** The whole life of a deployment: cancel, stop, rollback, and the order in which releases of an app were wanted. */
export const deployments: Migration = {
  async up(db) {
    for (const statement of statements) await sql.raw(statement).execute(db)
  },
}
