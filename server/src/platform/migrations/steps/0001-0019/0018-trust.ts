import { sql } from 'kysely'
import type { Migration } from 'kysely/migration'

const statements = [
  // Servers of older versions delete projects and know nothing of their trust.
  `create table trust_rules (
    id text collate "C" primary key,
    project_id text collate "C" not null references projects on delete cascade,
    account_id text collate "C" not null references accounts,
    issuer text not null,
    repository text,
    repository_id text,
    branch text,
    tag text,
    environment text,
    event text,
    workflow text,
    claims jsonb not null,
    created_at timestamptz not null default now(),
    last_used_at timestamptz
  )`,
  `create index trust_rules_project on trust_rules (project_id, id)`,
  // Kept until the tokens expire: each counts once.
  `create table used_tokens (
    hash bytea primary key,
    expires_at timestamptz not null
  )`,
  // The run that a key was made for.
  `alter table api_keys add column workflow jsonb`,
  `create index api_keys_trust on api_keys ((workflow->>'trust_id')) where workflow is not null`,
  `alter table audit_entries add column details jsonb`,
  // Not validated: every row that the narrower check let in passes the wider one.
  `alter table audit_entries drop constraint audit_entries_actor_type_check`,
  `alter table audit_entries add constraint audit_entries_actor_type_check
    check (actor_type in ('key', 'user', 'command', 'workflow')) not valid`,
  `alter table deployments add column triggered_by jsonb, add column commit_details jsonb`,
]

/** Trust in issuers of tokens, and what is known of the run and the commit behind a deployment. */
export const trust: Migration = {
  async up(db) {
    for (const statement of statements) await sql.raw(statement).execute(db)
  },
}
