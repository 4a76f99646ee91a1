import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { statfs } from 'node:fs/promises'
import { freemem, tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { Client } from 'pg'
import { pino } from 'pino'
import type { TestProject } from 'vitest/node'
import { migrate, openDatabase } from '../../server/src/platform/database.ts'
import { prepareJobs } from '../../server/src/platform/jobs.ts'
import { migrations } from '../../server/src/platform/migrations/index.ts'
import { privateAccess } from '../../server/src/platform/postgres/access.ts'
import { openCluster } from '../../server/src/platform/postgres/cluster.ts'
import { databaseUrl } from './database.ts'
import { buildEnvironment } from './environment.ts'
import type { SharedServer } from './server.ts'
import { templateName } from './template.ts'
import { isRoot, temporaryDirectory } from './temporary.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** The PostgreSQL cluster of all test files. */
    cluster: { host: string; port: number; user: string }
    /** The variables of builds. They are read once, because npm takes as long as a server's start. */
    buildEnvironment: Record<string, string>
  }
}

const settings = {
  // Each server uses more than twenty connections, and each worker may have two servers.
  max_connections: '400',
  // Durability is unnecessary: a crash ends the run.
  fsync: 'off',
  full_page_writes: 'off',
  synchronous_commit: 'off',
}

/** More space than all databases of a run use at once. */
const neededBytes = 4e9

/**
 * Returns a folder in memory if memory has room. A run creates and drops thousands of databases. On a disk, ext4 would
 * spend much CPU time on finding blocks.
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
  const environment = buildEnvironment()
  project.provide('buildEnvironment', environment)
  const isShared = project.name === 'api'
  const shared = isShared ? await startShared(cluster.connection, directory.path, environment) : null
  project.provide('sharedServer', shared?.server ?? null)
  return async () => {
    await shared?.stop()
    await cluster.close()
    await directory[Symbol.asyncDispose]()
  }
}

export interface Shared {
  readonly server: SharedServer
  stop(): Promise<void>
}

/** Starts the server that all API tests share. */
export async function startShared(
  cluster: { readonly host: string; readonly port: number; readonly user: string },
  directory: string,
  environment: Readonly<Record<string, string>>,
): Promise<Shared> {
  const name = 'fairlead_shared'
  const admin = new Client({ ...cluster, database: 'postgres' })
  await admin.connect()
  await admin.query(`create database ${name} template ${templateName}`)
  await admin.end()
  const dataDirectory = join(directory, 'shared')
  const address = databaseUrl(cluster, name)
  const program = fileURLToPath(new URL('./shared-server.ts', import.meta.url))
  const child = spawn(process.execPath, [program], {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: {
      ...process.env,
      SHARED_SERVER: 'true',
      DATABASE_URL: address,
      FAIRLEAD_DATA_DIR: dataDirectory,
      FAIRLEAD_BUILD_ENV: JSON.stringify(environment),
      FAIRLEAD_STABLE_TIME: '0.1',
      FAIRLEAD_DRAIN_TIMEOUT: '1',
      FAIRLEAD_FILE_SOURCES: tmpdir(),
    },
  })
  const exited = once(child, 'exit')
  const [url] = await Promise.race([
    once(createInterface({ input: child.stdout }), 'line'),
    exited.then(([code]) => Promise.reject(new Error(`the shared server ended with ${code}`))),
  ])
  return {
    server: { url, databaseUrl: address, dataDirectory },
    async stop() {
      child.stdin.end()
      await exited
    },
  }
}
