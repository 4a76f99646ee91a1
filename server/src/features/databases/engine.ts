import type { Config } from '../../platform/config.ts'
import type { DataDirectory } from '../../platform/data-directory.ts'
import type { Logger } from '../../platform/logger.ts'
import type { Metrics } from '../../platform/metrics.ts'
import { startPeriodic } from '../../platform/periodic.ts'
import { binariesReleases, createBinariesStore } from '../../platform/postgres/binaries.ts'
import type { ShutdownStack } from '../../platform/shutdown.ts'
import { databasesUser } from '../../platform/state.ts'
import { createCertificates } from './postgres/certificates.ts'
import { createEmbeddedEngine } from './postgres/embedded.ts'
import type { Engine } from './postgres/engine.ts'
import { createExternalEngine } from './postgres/external.ts'
import { createEngineHealth } from './postgres/health.ts'

/** The host in connection strings of the embedded engine, whose clusters listen only on loopback. */
const embeddedHost = '127.0.0.1'

const renewalEveryMs = 60 * 60_000
const healthEveryMs = 5_000

export interface DatabaseEngineParts {
  readonly config: Pick<Config, 'databases' | 'dataDirectory' | 'publicAddress' | 'uids'>
  readonly directory: Pick<DataDirectory, 'databases' | 'databaseCertificates' | 'runtime' | 'binaries'>
  readonly stack: ShutdownStack
  readonly logger: Logger
  readonly metrics: Pick<Metrics, 'gauge'> | null
  readonly addProblems: (problems: () => readonly string[]) => void
}

/**
 * Creates the engine of users' databases: embedded clusters, or the operator's PostgreSQL. Every server process opens
 * the engine for its requests; the processes of a machine share the clusters.
 */
export async function createDatabaseEngine(parts: DatabaseEngineParts): Promise<Engine> {
  const { config, directory, logger, stack } = parts
  const { url, ports, registryEnvironment } = config.databases
  const user = databasesUser(config)
  const engine =
    url === undefined
      ? createEmbeddedEngine({
          directory: directory.databases,
          runtimeDirectory: directory.runtime,
          user,
          host: embeddedHost,
          certificates: createCertificates({ directory: directory.databaseCertificates, user, names: namesOf(config) }),
          ports,
          binaries: await createBinariesStore({
            directory: directory.binaries,
            releases: binariesReleases,
            environment: registryEnvironment,
            logger,
          }),
          logger,
        })
      : createExternalEngine({ url, logger })
  stack.defer('database engines', (scope) => engine.close({ keep: scope === 'server' }))
  followHealth(parts, engine)
  const renewal = startPeriodic({
    name: "renewing the certificate of users' databases",
    everyMs: renewalEveryMs,
    work: engine.renewCertificate,
    logger,
  })
  stack.defer("the certificate of users' databases", () => renewal.stop())
  return engine
}

/** Wildcard listen addresses, which no client can use to reach the server. */
const everyAddress = ['0.0.0.0', '::']

/** Returns the host names of the clusters: loopback, and the public name for clients that forward a port. */
function namesOf({ publicAddress }: Pick<Config, 'publicAddress'>): string[] {
  const host = 'origin' in publicAddress ? new URL(publicAddress.origin).hostname : publicAddress.host
  const names = [embeddedHost, 'localhost', host.replace(/^\[|\]$/g, '')]
  return [...new Set(names)].filter((name) => !everyAddress.includes(name))
}

function followHealth({ addProblems, metrics, logger, stack }: DatabaseEngineParts, engine: Engine): void {
  const health = createEngineHealth(engine, logger)
  addProblems(health.problems)
  metrics?.gauge({
    name: 'fairlead_database_engines',
    help: "1 for a PostgreSQL of users' databases that answers, 0 for one that does not, by version.",
    label: 'version',
    read: async () => health.answering(),
  })
  metrics?.gauge({
    name: 'fairlead_database_notifications',
    help: "How full the queue of notifications of users' databases is, from 0 to 1, by version.",
    label: 'version',
    read: async () => health.notifications(),
  })
  const check = startPeriodic({
    name: "looking at the PostgreSQL of users' databases",
    everyMs: healthEveryMs,
    work: health.check,
    logger,
  })
  stack.defer("the health of users' databases", () => check.stop())
}
