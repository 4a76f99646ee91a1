import { sql } from 'kysely'
import type { Migration } from 'kysely/migration'

const statements = [
  `alter table webhooks
    add column rate integer,
    add column disabled_reason text check (disabled_reason in ('user', 'gone', 'failures')),
    add column previous_secret bytea,
    add column previous_secret_until timestamptz,
    -- Since when every attempt has failed, and how many those were.
    add column failing_since timestamptz,
    add column failed_attempts integer not null default 0`,
  `update webhooks set disabled_reason = 'user' where status = 'disabled'`,
  `alter table webhooks add check ((status = 'disabled') = (disabled_reason is not null))`,
  `alter table deliveries
    -- Each redelivery begins a round of the schedule; an attempt that is under way still belongs to the one before.
    add column round integer not null default 1,
    -- Failed attempts of this round: the place in the schedule.
    add column failures integer not null default 0`,
  `update deliveries set failures = attempts where status = 'pending'`,
  `update deliveries set next_attempt_at = null where status <> 'pending'`,
  `alter table deliveries add check ((status = 'pending') = (next_attempt_at is not null))`,
  // What is due, for each receiver by itself, so that one with a great backlog hides none of the others.
  `create index deliveries_due on deliveries (webhook_id, next_attempt_at) where status = 'pending'`,
  `create index deliveries_created on deliveries (created_at)`,
  `create index events_created on events (created_at)`,
  `create table webhook_attempts (
    delivery_id text collate "C" not null references deliveries on delete cascade,
    number integer not null,
    at timestamptz not null,
    duration_ms integer not null,
    url text not null,
    request_headers jsonb not null,
    status integer,
    response_headers jsonb,
    response_body text,
    error text,
    primary key (delivery_id, number)
  )`,
  // A project that goes takes its receivers and events along.
  `alter table webhooks drop constraint webhooks_project_id_fkey,
    add foreign key (project_id) references projects on delete cascade`,
  `alter table events drop constraint events_project_id_fkey,
    add foreign key (project_id) references projects on delete cascade`,
  `alter table deliveries drop constraint deliveries_event_id_fkey,
    add foreign key (event_id) references events on delete cascade`,
]

/** Rotation, rate and health of receivers; rounds and attempts of deliveries. */
export const webhooks: Migration = {
  async up(db) {
    for (const statement of statements) await sql.raw(statement).execute(db)
  },
}
