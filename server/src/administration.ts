import { type AccountStore, createAccountStore } from './features/accounts/accounts.ts'
import { type AuditLog, createAuditLog } from './features/accounts/audit-log.ts'
import { createKeys, type Keys } from './features/accounts/keys.ts'
import { createTrustRules, type TrustRules } from './features/accounts/trust/rules.ts'
import { createUsers, type Users } from './features/accounts/users.ts'
import { createTenancy, type Tenancy } from './features/projects/tenancy.ts'
import type { Config } from './platform/config.ts'
import { controlsOf } from './platform/control/client.ts'
import { dataDirectoryAt, openDataDirectory } from './platform/data-directory.ts'
import type { Database } from './platform/database.ts'
import type { Logger } from './platform/logger.ts'
import { binariesReleases, createBinariesStore } from './platform/postgres/binaries.ts'
import { findPostmaster } from './platform/postgres/postmaster.ts'
import { clusterUser, openState } from './platform/state.ts'

/** The parts that operator commands use, with or without a running server. */
export interface Administration {
  readonly database: Database
  readonly accounts: AccountStore
  readonly keys: Keys
  readonly trust: TrustRules
  readonly users: Users
  readonly auditLog: AuditLog
  readonly tenancy: Tenancy
}

export async function administer<T>(
  options: { readonly config: Config; readonly logger: Logger },
  work: (administration: Administration) => Promise<T>,
): Promise<T> {
  const { config, logger } = options
  const keep = await isLeftRunning(config)
  const state = await openState({ config, logger, supervise: false, signal: new AbortController().signal })
  try {
    const database = state.db
    return await work({
      database,
      accounts: createAccountStore({ database }),
      keys: createKeys({ database }),
      trust: createTrustRules({ database }),
      users: createUsers({ database }),
      auditLog: createAuditLog({ database }),
      tenancy: createTenancy({ database }),
    })
  } finally {
    await state.close({ keep })
  }
}

/** True when the embedded PostgreSQL already runs without a server. A command then leaves it running. */
async function isLeftRunning({ dataDirectory, databaseUrl }: Config): Promise<boolean> {
  const { cluster, run } = dataDirectoryAt(dataDirectory)
  if (databaseUrl !== undefined || (await findPostmaster(cluster)) === null) return false
  return (await controlsOf(run)).length === 0
}

/**
 * Installs a major version of PostgreSQL for users' databases into the data directory, with or without a running
 * server. Returns the exact version. Rejects when the version does not exist, or the registry does not deliver it.
 */
export async function installBinaries(
  options: { readonly config: Config; readonly logger: Logger; readonly signal: AbortSignal },
  major: string,
): Promise<string> {
  const { config, logger, signal } = options
  const { binaries } = await openDataDirectory(config.dataDirectory, clusterUser(config))
  const store = await createBinariesStore({
    directory: binaries,
    releases: binariesReleases,
    environment: config.databases.registryEnvironment,
    logger,
  })
  if (!store.majors.includes(major)) {
    throw new Error(`PostgreSQL ${major} cannot be installed; available versions are: ${store.majors.join(', ')}.`)
  }
  return (await store.install(major, signal)).version
}
