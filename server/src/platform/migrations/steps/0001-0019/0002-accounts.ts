import { sql } from 'kysely'
import type { Migration } from 'kysely/migration'

const statements = [
  `alter table accounts add column requests_per_hour integer check (requests_per_hour > 0)`,
  // Enough of a key to recognise it; keys made before this have none.
  `alter table api_keys add column hint text`,

  // Updated by nearly every request: room on the page keeps the updates off the index.
  `create table rate_windows (
    account_id text collate "C" primary key references accounts,
    started_at timestamptz not null,
    used bigint not null
  ) with (fillfactor = 20)`,

  `create table users (
    id text collate "C" primary key,
    account_id text collate "C" not null references accounts,
    email text not null unique,
    password_hash text not null,
    created_at timestamptz not null default now()
  )`,
  `create table sessions (
    id text collate "C" primary key,
    user_id text collate "C" not null references users on delete cascade,
    hash bytea not null unique,
    address text not null,
    user_agent text,
    created_at timestamptz not null default now(),
    last_seen_at timestamptz not null default now(),
    expires_at timestamptz not null
  )`,
  `create index sessions_user on sessions (user_id, id)`,
  `create table setup_links (
    hash bytea primary key,
    account_id text collate "C" not null references accounts,
    expires_at timestamptz not null
  )`,

  `create table audit_entries (
    id text collate "C" primary key,
    account_id text collate "C" not null references accounts,
    at timestamptz not null default now(),
    actor_type text not null check (actor_type in ('key', 'user', 'command')),
    actor_id text,
    actor_name text,
    address text,
    request_id text,
    operation text not null,
    project_id text,
    resource_id text
  )`,
  `create index audit_entries_account on audit_entries (account_id, id)`,
  // For the end of their retention; rows lie in the order of their time.
  `create index audit_entries_at on audit_entries using brin (at)`,

  // How many projects an account has, so that a list need not count them. The number is spread over slots, one
  // for each connection that writes: creations of one account do not wait for one another.
  `create table project_counts (
    account_id text collate "C" not null references accounts,
    slot integer not null,
    total bigint not null,
    primary key (account_id, slot)
  ) with (fillfactor = 50)`,
  `insert into project_counts
    select account_id, 0, count(*) from projects group by account_id`,
  // By statement and not by row: a thousand rows at once are one change of the number.
  `create function count_projects() returns trigger language plpgsql as $$
  begin
    if tg_op = 'INSERT' then
      insert into project_counts as known (account_id, slot, total)
        select account_id, pg_backend_pid() % 32, count(*) from added group by account_id
        on conflict (account_id, slot) do update set total = known.total + excluded.total;
    else
      insert into project_counts as known (account_id, slot, total)
        select account_id, pg_backend_pid() % 32, -count(*) from removed group by account_id
        on conflict (account_id, slot) do update set total = known.total + excluded.total;
    end if;
    return null;
  end $$`,
  `create trigger count_inserted after insert on projects
    referencing new table as added for each statement execute function count_projects()`,
  `create trigger count_deleted after delete on projects
    referencing old table as removed for each statement execute function count_projects()`,
]

/** Rate limits, users with their sessions, the audit log, the number of projects. */
export const accounts: Migration = {
  async up(db) {
    for (const statement of statements) await sql.raw(statement).execute(db)
  },
}
