import { sql } from 'kysely'
import type { Migration } from 'kysely/migration'

const statements = [
  // The reference that was asked for, whole, and the digest that it had.
  'alter table deployments add column image text, add column image_digest text',
  // Servers of older versions delete projects and know nothing of these.
  `create table registries (
    id text collate "C" primary key,
    project_id text collate "C" not null references projects on delete cascade,
    registry text not null,
    username text not null,
    password bytea not null,
    created_at timestamptz not null default now(),
    unique (project_id, registry)
  )`,
]

/**
 * Container images that are deployed, and credentials of projects for registries. A deployment of an image has an empty
 * `git_url`, so that servers of older versions can read it; they cannot run it, and fail it.
 */
export const images: Migration = {
  async up(db) {
    for (const statement of statements) await sql.raw(statement).execute(db)
  },
}
