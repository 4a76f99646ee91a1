import { sql } from 'kysely'
import type { Migration } from 'kysely/migration'

const statements = [
  // Servers of older versions delete apps and know nothing of their domains.
  `create table domains (
    id text collate "C" primary key,
    app_id text collate "C" not null references apps on delete cascade,
    project_id text collate "C" not null,
    account_id text collate "C" not null references accounts on delete cascade,
    name text collate "C" not null,
    registered text collate "C" not null,
    status text not null default 'pending' check (status in ('pending', 'active', 'failing')),
    is_primary boolean not null default false,
    redirect boolean not null default false,
    token text not null,
    problems jsonb not null default '[]',
    asked_at timestamptz not null default now(),
    checks integer not null default 0,
    wrong_checks integer not null default 0,
    wrong_since timestamptz,
    checked_at timestamptz,
    next_check_at timestamptz default now(),
    served_since timestamptz,
    created_at timestamptz not null default now(),
    unique (account_id, name),
    check (not is_primary or (status <> 'pending' and name not like '*%')),
    check (not redirect or name not like '*%'),
    check ((status = 'pending') = (served_since is null))
  )`,
  // Several accounts may wait for a name; one has it.
  `create unique index domains_served on domains (name) where status <> 'pending'`,
  `create unique index domains_primary on domains (app_id) where is_primary`,
  `create index domains_registered on domains (registered) where status <> 'pending'`,
  `create index domains_app on domains (app_id)`,
  `create index domains_due on domains (next_check_at)`,
  // The account at which a name was served last. Another one must prove that the name is its own.
  `create table domain_holders (
    name text collate "C" primary key,
    account_id text collate "C" not null references accounts on delete cascade,
    held_at timestamptz not null default now()
  )`,
  `create index domain_holders_account on domain_holders (account_id, held_at)`,
  // A trigger, because apps are deleted by servers of older versions, too, and every change must reach the gateway.
  `create function notify_domains() returns trigger language plpgsql as $$
    begin
      perform pg_notify('fairlead_domains', coalesce(new.app_id, old.app_id));
      return null;
    end
  $$`,
  `create trigger domains_added_or_removed after insert or delete on domains
    for each row execute function notify_domains()`,
  `create trigger domains_changed after update on domains for each row
    when ((old.status, old.is_primary, old.redirect, old.token) is distinct from
      (new.status, new.is_primary, new.redirect, new.token))
    execute function notify_domains()`,
]

/** Domains of apps. Servers of older versions do not serve them. */
export const domains: Migration = {
  async up(db) {
    for (const statement of statements) await sql.raw(statement).execute(db)
  },
}
