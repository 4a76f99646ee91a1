import { z } from 'zod'
import type { Declarations } from '../declaration.ts'
import { name, slug, timestamp } from './common.ts'

export const databaseStatuses = ['provisioning', 'available', 'failed', 'deleting'] as const
export type DatabaseStatus = (typeof databaseStatuses)[number]

const identity = z.object({
  id: z.string(),
  name: z.string(),
  type: z.enum(['postgresql']),
  /** The major version of the engine. */
  version: z.string(),
})

/** Exactly the fields of the specification; the one answer, besides the rotation's, that holds the password. */
export const databaseCreated = identity.extend({
  connection_string: z.string(),
  status: z.enum(databaseStatuses),
})

export const database = identity.extend({
  plan: z.string(),
  status: z.enum(databaseStatuses),
  created_at: timestamp,
})

export const databaseFailure = z.object({
  /** Stable and machine-readable, such as `engine_unavailable`. */
  code: z.string(),
  /** What happened and what to do. */
  message: z.string(),
})
export type DatabaseFailure = z.infer<typeof databaseFailure>

/** One database, read by its id. Figures are `null` while its engine cannot be asked. */
export const databaseDetail = database.extend({
  project_id: z.string(),
  /** `local`: reached from the server's machine alone, as by apps that are deployed there. */
  access: z.enum(['local', 'network']),
  size_bytes: z.int().nonnegative().nullable(),
  max_size_bytes: z.int().nonnegative(),
  connections: z.int().nonnegative().nullable(),
  max_connections: z.int().nonnegative(),
  /** Larger than its plan allows: it takes no writes until it is smaller again. */
  read_only: z.boolean(),
  failure: databaseFailure.nullable(),
  /** Until when a deleted one can be restored. */
  restorable_until: timestamp.nullable(),
})

export const snapshotStatuses = ['creating', 'available', 'failed'] as const
export type SnapshotStatus = (typeof snapshotStatuses)[number]

export const snapshot = z.object({
  id: z.string(),
  database_id: z.string(),
  status: z.enum(snapshotStatuses),
  size_bytes: z.int().nonnegative().nullable(),
  failure: databaseFailure.nullable(),
  created_at: timestamp,
})

export const databaseOperations = {
  'databases.list': {
    summary: 'List databases',
    description: 'All databases of the project, newest first, deleted ones included that can still be restored.',
    response: z.object({ databases: z.array(database) }),
  },
  'databases.create': {
    summary: 'Create a database',
    description:
      'A PostgreSQL database with a role of its own. `connection_string` is final and in this answer alone; it works ' +
      "when `status` is `available`. A database in the server's own engine is reached from the server's machine alone, " +
      'one in an external engine over the network, too. With `snapshot_id` the database begins with what that snapshot of the same ' +
      'project holds.',
    body: z.object({
      name: name,
      type: z.enum(['postgresql'], { error: 'must be postgresql' }).optional(),
      version: z.string({ error: 'must be a string, such as "18"' }).optional(),
      plan: slug.optional(),
      snapshot_id: z.string({ error: 'must be a string' }).optional(),
    }),
    response: databaseCreated,
  },
  'databases.get': {
    summary: 'Read a database',
    description: 'One database with its size, its connections and, when it failed, the reason.',
    response: databaseDetail,
  },
  'databases.delete': {
    summary: 'Delete a database',
    description: 'Nobody can log in any more. What it holds is kept for a while, in which it can be restored.',
  },
  'databases.restore': {
    summary: 'Restore a deleted database',
    description: 'Brings back what was deleted, under the same connection string, as long as it is kept.',
    response: databaseDetail,
  },
  'databases.rotatePassword': {
    summary: 'Rotate the password of a database',
    description:
      'Gives the role a new password and answers with the new connection string. The old password ends at once; ' +
      'connections that are open stay open.',
    response: databaseCreated,
  },
} as const satisfies Declarations<'databases'>

export const snapshotOperations = {
  'snapshots.list': {
    summary: 'List snapshots',
    description: 'All snapshots of the database, newest first.',
    response: z.object({ snapshots: z.array(snapshot) }),
  },
  'snapshots.create': {
    summary: 'Take a snapshot',
    description:
      'Copies the database inside its engine. Its connections are ended, and new ones refused, for the time of the copy. ' +
      'The oldest snapshots give way when there are more than are kept.',
    response: snapshot,
  },
  'snapshots.get': {
    summary: 'Read a snapshot',
    description: 'One snapshot with its size and, when it failed, the reason.',
    response: snapshot,
  },
  'snapshots.delete': {
    summary: 'Delete a snapshot',
    description: 'Frees its space.',
  },
  'snapshots.restore': {
    summary: 'Restore a snapshot',
    description:
      'Puts the database back to what the snapshot holds; what was written since is lost. The connection string stays ' +
      'the same. To restore into a new database, create one with `snapshot_id`.',
    response: databaseDetail,
  },
} as const satisfies Declarations<'snapshots'>
