import { sql } from 'kysely'
import type { Migration } from 'kysely/migration'

const statements = [
  // A session without a second secret is worth nothing now, so its user signs in again. The column may be null, because
  // a server of an older version may still begin sessions beside a new one.
  `delete from sessions`,
  `alter table sessions add column secret_hash bytea`,
  // The browsers in which a user has signed in.
  `create table devices (
    hash bytea not null,
    user_id text collate "C" not null references users on delete cascade,
    last_used_at timestamptz not null default now(),
    primary key (hash, user_id)
  )`,
  `create index devices_user on devices (user_id, last_used_at)`,
  // Requests of sessions, apart from those of keys. Updated often: room on the page keeps the updates off the index.
  `create table session_rate_windows (
    account_id text collate "C" primary key references accounts,
    started_at timestamptz not null,
    used bigint not null
  ) with (fillfactor = 20)`,
  `create index setup_links_account on setup_links (account_id)`,
]

/** The second secret of sessions, known browsers, and the rate limit of sessions. */
export const sessionSecrets: Migration = {
  async up(db) {
    for (const statement of statements) await sql.raw(statement).execute(db)
  },
}
