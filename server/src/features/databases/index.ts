import type { Middleware } from 'koa'
import type { HandlersOf } from '../../http/call.ts'
import type { Announce } from '../../platform/announce.ts'
import type { BatchedRead } from '../../platform/database/batcher.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import type { Task } from '../../platform/jobs.ts'
import type { LeaderParts } from '../../platform/leadership/leader-parts.ts'
import type { Logger } from '../../platform/logger.ts'
import { startPeriodic } from '../../platform/periodic.ts'
import type { Plans, Tier } from '../../platform/plans.ts'
import type { SecretBox } from '../../platform/secrets.ts'
import { databaseAnnouncements } from './announce.ts'
import { startDatabaseChecks } from './checks.ts'
import { createDatabaseRequests, type DatabaseRequests } from './databases.ts'
import { authorityDownload, databaseHandlers, type LinkApp } from './handlers.ts'
import { dropTask, loginsTask, reconcileTask, snapshotTask } from './jobs.ts'
import type { Engine } from './postgres/engine.ts'
import { createDatabaseReconciler, type DatabaseReconciler, openEngines } from './reconciler.ts'
import { createRotationsCheck, type LinkedApps } from './rotation.ts'
import { createSnapshots } from './snapshots.ts'

/** Apps read the databases that they are linked to, and `createDatabases` links apps: it comes after them. */
export { createLinkedDatabases } from './credentials.ts'
export { createDatabaseEngine, type DatabaseEngineParts } from './engine.ts'
export type { LinkedApps } from './rotation.ts'

const rotationsEveryMs = 1_000

export interface DatabasesParts {
  readonly database: Database
  readonly secrets: SecretBox
  readonly plans: Plans
  /** How long a deleted database can be restored, in milliseconds. */
  readonly retentionMs: number
  readonly logger: Logger
  readonly engine: Engine
  readonly tierOf: (on: Transaction, accountId: string) => Promise<Tier>
  readonly projectsOf: (on: Transaction, accountId: string) => Promise<readonly string[]>
  readonly linkApp: LinkApp
  readonly announce: Announce
}

export interface Databases {
  readonly handlers: HandlersOf<'databases' | 'snapshots'>
  readonly authority: Middleware
  readonly count: BatchedRead<string, number>
  readonly ofProjects: DatabaseRequests['ofProjects']
  lead(leader: DatabasesLeaderParts): DatabasesWork
}

export interface DatabasesLeaderParts extends Pick<LeaderParts, 'database' | 'stack'> {
  readonly accountOf: (transaction: Transaction, projectId: string) => Promise<string>
}

export interface DatabasesWork {
  readonly tasks: Readonly<Record<string, Task>>
  readonly removeProject: DatabaseReconciler['removeProject']
  /** Opens the engines of all databases, and starts the health checks. */
  start(): Promise<void>
  /** Resumes rotations of passwords, which linked apps follow, and returns the task that begins a rotation. */
  startRotations(linked: LinkedApps): Readonly<Record<string, Task>>
}

export function createDatabases(parts: DatabasesParts): Databases {
  const { database, secrets, plans, retentionMs, engine, tierOf, projectsOf, linkApp } = parts
  const requests = createDatabaseRequests({ database, secrets, plans, retentionMs, engine, tierOf, projectsOf })
  const snapshots = createSnapshots({ database, plans, tierOf, projectsOf })
  return {
    handlers: databaseHandlers({ requests, snapshots, linkApp }),
    authority: authorityDownload(engine.authority),
    count: requests.count,
    ofProjects: requests.ofProjects,
    lead: (leader) => lead(parts, leader),
  }
}

function lead(
  { secrets, plans, logger, engine, announce }: DatabasesParts,
  { database, stack, accountOf }: DatabasesLeaderParts,
): DatabasesWork {
  const reconciler = createDatabaseReconciler({
    database,
    secrets,
    engine,
    plans,
    announce: databaseAnnouncements({ announce, accountOf }),
    logger,
  })
  return {
    tasks: {
      [reconcileTask]: (job, signal) => reconciler.reconcile(String(job['database_id']), signal),
      [dropTask]: (job, signal) => reconciler.drop(String(job['database_id']), signal),
      [snapshotTask]: (job, signal) => reconciler.reconcileSnapshot(String(job['snapshot_id']), signal),
    },
    removeProject: reconciler.removeProject,

    async start() {
      await reconciler.resume()
      await openEngines({ database, engine, logger }, stack.signal)
      const checks = startDatabaseChecks({ database, engine, plans, logger, reconciler })
      stack.defer('databases', () => checks.stop())
    },

    startRotations(linked) {
      const change = (databaseId: string, signal: AbortSignal) => reconciler.changeLogins(databaseId, linked, signal)
      const check = startPeriodic({
        name: 'ending the former passwords of databases',
        everyMs: rotationsEveryMs,
        work: createRotationsCheck({ database, engine, logger, change }),
        logger,
      })
      stack.defer('rotations of passwords', () => check.stop())
      return { [loginsTask]: (job, signal) => change(String(job['database_id']), signal) }
    },
  }
}
