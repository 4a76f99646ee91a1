import { sql } from 'kysely'
import type { Migration } from 'kysely/migration'

const statements = [
  // Ids sort by time under the C collation, so they serve as the order of lists.
  `create table settings (
    key text primary key,
    value bytea not null
  )`,
  `create table accounts (
    id text collate "C" primary key,
    name text not null,
    plan text not null,
    operator boolean not null default false,
    created_at timestamptz not null default now()
  )`,
  // There is one operator's account, also when two servers start at once.
  `create unique index accounts_one_operator on accounts (operator) where operator`,
  `create table api_keys (
    id text collate "C" primary key,
    account_id text collate "C" not null references accounts,
    name text not null,
    hash bytea not null unique,
    scopes text[] not null,
    project_ids text[],
    created_at timestamptz not null default now(),
    last_used_at timestamptz,
    expires_at timestamptz,
    revoked_at timestamptz
  )`,
  `create index api_keys_account on api_keys (account_id, id)`,
  `create table projects (
    id text collate "C" primary key,
    account_id text collate "C" not null references accounts,
    name text not null,
    region text not null,
    plan text not null,
    status text not null check (status in ('active')),
    created_at timestamptz not null default now()
  )`,
  `create index projects_account on projects (account_id, id)`,
  `create table apps (
    id text collate "C" primary key,
    project_id text collate "C" not null references projects,
    name text not null,
    number integer generated always as identity unique,
    port integer unique,
    hostname text unique,
    created_at timestamptz not null default now(),
    unique (project_id, name),
    check ((port is null) <> (hostname is null))
  )`,
  `create table deployments (
    id text collate "C" primary key,
    project_id text collate "C" not null references projects,
    app_id text collate "C" not null references apps,
    status text not null check (status in ('building', 'running', 'failed', 'superseded')),
    git_url text not null,
    branch text,
    commit text,
    variables bytea not null,
    plan jsonb,
    instance jsonb,
    failure jsonb,
    attempts integer not null default 0,
    created_at timestamptz not null default now(),
    started_at timestamptz,
    finished_at timestamptz
  )`,
  `create index deployments_project on deployments (project_id, id)`,
  `create index deployments_app on deployments (app_id, id)`,
  // An app has one running release; whoever tries to make a second one is told by the database.
  `create unique index deployments_one_running on deployments (app_id) where status = 'running'`,
  `create table webhooks (
    id text collate "C" primary key,
    account_id text collate "C" not null references accounts,
    project_id text collate "C" references projects,
    url text not null,
    events text[] not null,
    secret bytea not null,
    status text not null check (status in ('enabled', 'disabled')),
    created_at timestamptz not null default now()
  )`,
  `create index webhooks_account on webhooks (account_id, id)`,
  `create table events (
    id text collate "C" primary key,
    account_id text collate "C" not null references accounts,
    project_id text collate "C" references projects,
    type text not null,
    body text not null,
    created_at timestamptz not null default now()
  )`,
  // One row owns the schedule of one event to one receiver.
  `create table deliveries (
    id text collate "C" primary key,
    webhook_id text collate "C" not null references webhooks on delete cascade,
    event_id text collate "C" not null references events,
    status text not null check (status in ('pending', 'succeeded', 'failed')),
    attempts integer not null default 0,
    next_attempt_at timestamptz,
    last_status integer,
    last_error text,
    finished_at timestamptz,
    created_at timestamptz not null default now()
  )`,
  `create index deliveries_webhook on deliveries (webhook_id, id)`,
  `create index deliveries_event on deliveries (event_id)`,
]

/** Accounts, keys, projects, apps with their deployments, webhooks with their events and deliveries. */
export const foundation: Migration = {
  async up(db) {
    for (const statement of statements) await sql.raw(statement).execute(db)
  },
}
