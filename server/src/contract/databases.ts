import { z } from 'zod'
import type { Declarations } from './declaration.ts'
import { name, slug, timestamp } from './fields.ts'
import { linkOfDatabase } from './links.ts'

export const databaseStatuses = ['provisioning', 'available', 'failed', 'deleting'] as const
export type DatabaseStatus = (typeof databaseStatuses)[number]

const identity = z.object({
  id: z.string().describe('`db_…`.'),
  name: z.string(),
  type: z.enum(['postgresql']),
  version: z.string().describe('The major version of the engine.'),
})

/** Exactly the fields of the specification. Only answers to creation and rotation contain the password. */
const databaseCreated = identity.extend({
  connection_string: z
    .string()
    .describe('`postgresql://<user>:<password>@<host>:<port>/<database>`. Final at once, and not shown again.'),
  status: z.enum(databaseStatuses),
})

export const database = identity.extend({
  plan: z.string(),
  status: z.enum(databaseStatuses),
  created_at: timestamp,
})

const databaseFailure = z.object({
  code: z.string().describe('Stable and machine-readable, such as `engine_unavailable`.'),
  message: z.string().describe('The cause and the remedy, for people.'),
})
export type DatabaseFailure = z.infer<typeof databaseFailure>

const databaseDetail = database.extend({
  project_id: z.string(),
  access: z
    .enum(['local', 'network'])
    .describe("`local` when only the server's machine, where the apps run, can reach it."),
  size_bytes: z.int().nonnegative().nullable().describe('`null` while the engine cannot be reached.'),
  max_size_bytes: z.int().nonnegative(),
  connections: z.int().nonnegative().nullable().describe('`null` while the engine cannot be reached.'),
  max_connections: z.int().nonnegative(),
  read_only: z.boolean().describe('True while it is larger than its plan allows: it accepts no writes.'),
  failure: databaseFailure.nullable(),
  restorable_until: timestamp.nullable().describe('The time until which a deleted database can be restored.'),
})

const snapshotStatuses = ['creating', 'available', 'failed'] as const
export type SnapshotStatus = (typeof snapshotStatuses)[number]

export const snapshot = z.object({
  id: z.string().describe('`snap_…`.'),
  database_id: z.string(),
  status: z.enum(snapshotStatuses),
  size_bytes: z.int().nonnegative().nullable(),
  failure: databaseFailure.nullable(),
  created_at: timestamp,
})

export const databaseOperations = {
  'databases.list': {
    summary: 'List databases',
    description: 'All databases of the project, newest first, including deleted ones that can still be restored.',
    response: z.object({ databases: z.array(database) }),
  },
  'databases.create': {
    summary: 'Create a database',
    description:
      'Creates a PostgreSQL database with a separate role. The `connection_string` works when `status` is ' +
      "`available`. A database in the server's own engine can be reached only from the server's machine, a database" +
      ' in an external engine also over the network.',
    body: z.object({
      name: name,
      type: z.enum(['postgresql'], { error: 'must be postgresql' }).optional(),
      version: z
        .string({ error: 'must be a string, such as "18"' })
        .optional()
        .describe(
          'The major version. Defaults to the newest available; the error for any other lists the available ones.',
        ),
      plan: slug.optional().describe('Defaults to `starter`; as far as the plan of the account allows.'),
      snapshot_id: z
        .string({ error: 'must be a string' })
        .optional()
        .describe('A snapshot of the same project and version; the new database starts with its content.'),
      link: linkOfDatabase.optional().describe('Links it to an app at once, as `links.create` does.'),
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
    description:
      'Refuses all logins at once. The data is kept until `restorable_until`; until then the database can be restored.',
  },
  'databases.restore': {
    summary: 'Restore a deleted database',
    description: 'Restores a deleted database with the same connection string, until `restorable_until`.',
    response: databaseDetail,
  },
  'databases.rotatePassword': {
    summary: 'Rotate the password of a database',
    description:
      'Answers with a new connection string, which works at once and has another user name. The instances of linked' +
      ' apps are replaced, each when its successor is healthy. The old password works until all instances are ' +
      'replaced and have had time to finish their requests, for 15 minutes at most; without running linked apps it ' +
      'stops working at once, as does the oldest of three passwords. Connections end with their password.',
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
      'Copies the database inside its engine. During the copy, its connections are ended, and new ones refused. The' +
      ' oldest snapshots beyond the limit are removed.',
    response: snapshot,
  },
  'snapshots.get': {
    summary: 'Read a snapshot',
    description: 'One snapshot with its size and, when it failed, the reason.',
    response: snapshot,
  },
  'snapshots.delete': {
    summary: 'Delete a snapshot',
    description: 'Removes the snapshot and frees its space.',
  },
  'snapshots.restore': {
    summary: 'Restore a snapshot',
    description:
      'Replaces the content of the database by the content of the snapshot; all later data is lost. The connection ' +
      'string stays the same. To restore into a new database, create one with `snapshot_id`.',
    response: databaseDetail,
  },
} as const satisfies Declarations<'snapshots'>
