import { statfs } from 'node:fs/promises'
import { freemem } from 'node:os'
import { join } from 'node:path'
import { Client } from 'pg'
import { pino } from 'pino'
import type { TestProject } from 'vitest/node'
import { migrate, openDatabase } from '../../server/src/platform/database.ts'
import { prepareJobs } from '../../server/src/platform/jobs.ts'
import { migrations } from '../../server/src/platform/migrations/index.ts'
import { privateAccess } from '../../server/src/platform/postgres/access.ts'
import { openCluster } from '../../server/src/platform/postgres/cluster.ts'
import { buildEnvironment } from './environment.ts'
import { isRoot, temporaryDirectory } from './temporary.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** The cluster in which every test file gets its databases. */
    cluster: { host: string; port: number; user: string }
    /** The variables of builds. They are read once, because npm takes as long for it as a server for its start. */
    buildEnvironment: Record<string, string>
  }
}

export const templateName = 'fairlead_template'

const settings = {
  // Each server uses more than twenty connections, and each worker may have two servers.
  max_connections: '400',
  // Nobody needs it after a crash.
  fsync: 'off',
  full_page_writes: 'off',
  synchronous_commit: 'off',
}

/** More than all databases of a run ever take at the same time. */
const neededBytes = 4e9

/**
 * Returns a folder in memory, where that has room. Making and dropping databases, thousands in a run, takes much of its CPU time on a
 * disk: ext4 spends long on looking for places that were not freed just now.
 */
async function folderOfCluster(): Promise<string | undefined> {
  const memory = '/dev/shm'
  const free = await statfs(memory).then(
    ({ bavail, bsize }) => bavail * bsize,
    () => 0,
  )
  return Math.min(free, freemem()) >= neededBytes ? memory : undefined
}

/** Starts one PostgreSQL for the whole run, with a template database that is migrated once. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const directory = await temporaryDirectory(await folderOfCluster())
  const logger = pino({ level: 'silent' })
  const cluster = await openCluster({
    directory: join(directory.path, 'postgres', 'data'),
    runtimeDirectory: join(directory.path, 'runtime'),
    user: isRoot ? { uid: 39_999, gid: 39_999 } : null,
    logger,
    signal: new AbortController().signal,
    supervise: false,
    access: { ...privateAccess, settings },
  })
  const admin = new Client({ ...cluster.connection, database: 'postgres' })
  await admin.connect()
  await admin.query(`create database ${templateName}`)
  await admin.end()
  const template = openDatabase({ ...cluster.connection, database: templateName, max: 2 }, logger)
  await migrate(template.db, migrations)
  await prepareJobs(template.pool, logger)
  await template.close()

  const { host, port, user } = cluster.connection
  project.provide('cluster', { host, port, user })
  project.provide('buildEnvironment', buildEnvironment())
  return async () => {
    await cluster.close()
    await directory[Symbol.asyncDispose]()
  }
}
