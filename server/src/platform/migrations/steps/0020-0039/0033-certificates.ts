import { sql } from 'kysely'
import type { Migration } from 'kysely/migration'

const statements = [
  `create table certificates (
    id text collate "C" primary key,
    account_id text collate "C" not null references accounts on delete cascade,
    project_id text collate "C" references projects on delete cascade,
    app_id text collate "C" references apps on delete cascade,
    domain_id text collate "C" references domains on delete cascade,
    names text[] collate "C" not null check (cardinality(names) > 0),
    source text not null check (source in ('automatic', 'uploaded')),
    chain text,
    private_key bytea,
    issuer text,
    serial text,
    not_before timestamptz,
    expires_at timestamptz,
    attempted_at timestamptz,
    next_attempt_at timestamptz,
    attempts integer not null default 0,
    failure jsonb,
    is_under_way boolean not null default false,
    order_url text,
    order_key bytea,
    alerted_at timestamptz,
    revocation_requested_at timestamptz,
    revoked_at timestamptz,
    created_at timestamptz not null default now(),
    check ((chain is null) = (issuer is null)),
    check ((chain is null) = (serial is null)),
    check ((chain is null) = (not_before is null)),
    check ((chain is null) = (expires_at is null)),
    -- The key of a revoked certificate is of no use.
    check ((private_key is not null) = (chain is not null and revoked_at is null)),
    check ((order_url is null) = (order_key is null)),
    check (source = 'automatic' or (chain is not null and app_id is null and domain_id is null and revoked_at is null)),
    check (revoked_at is null or revocation_requested_at is not null)
  )`,
  // One order at a time for the names of one owner. A certificate that is to be revoked has another one in its place.
  `create unique index certificates_automatic
    on certificates (names, coalesce(domain_id, ''), coalesce(app_id, ''))
    where source = 'automatic' and revocation_requested_at is null`,
  `create index certificates_account on certificates (account_id, id)`,
  `create index certificates_project on certificates (project_id)`,
  `create index certificates_app on certificates (app_id)`,
  `create index certificates_domain on certificates (domain_id)`,
  `create index certificates_due on certificates (next_attempt_at)`,
  // The account of this server at each authority, by the address of its directory.
  `create table acme_accounts (
    directory text primary key,
    url text,
    private_key bytea not null,
    email text not null,
    created_at timestamptz not null default now()
  )`,
  // The orders of some days, so that no tenant uses up what an authority allows to the whole server.
  `create table acme_orders (
    id bigint generated always as identity primary key,
    account_id text collate "C" not null,
    registered_domain text collate "C" not null,
    is_renewal boolean not null,
    created_at timestamptz not null default now()
  )`,
  `create index acme_orders_time on acme_orders (created_at)`,
  // The time until which an authority is to be left alone: for the names below a registered domain, or for all ('*').
  `create table acme_pauses (
    scope text collate "C" primary key,
    until timestamptz not null,
    failure jsonb not null
  )`,
  // TXT records that are in DNS, or may be; each is removed by whoever leads then.
  `create table acme_records (
    name text collate "C" not null,
    value text collate "C" not null,
    created_at timestamptz not null default now(),
    primary key (name, value)
  )`,
  // A trigger, because certificates go with their apps and domains, which servers of older versions delete, too.
  `create function notify_certificates() returns trigger language plpgsql as $$
    begin
      perform pg_notify('fairlead_certificates', '');
      return null;
    end
  $$`,
  `create trigger certificates_changed
    after insert or delete or update of chain, next_attempt_at, revocation_requested_at, revoked_at on certificates
    for each statement execute function notify_certificates()`,
]

/** Certificates, and the accounts at their authorities. Servers of older versions neither obtain nor show them. */
export const certificates: Migration = {
  async up(db) {
    for (const statement of statements) await sql.raw(statement).execute(db)
  },
}
