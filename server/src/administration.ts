import { type Accounts, createAccounts } from './accounts/accounts.ts'
import { type AuditLog, createAuditLog } from './accounts/audit-log.ts'
import { createKeys, type Keys } from './accounts/keys.ts'
import { createUsers, type Users } from './accounts/users.ts'
import type { Config } from './platform/config.ts'
import type { Database } from './platform/database.ts'
import type { Logger } from './platform/logger.ts'
import { openState } from './platform/state.ts'
import { createTenancy, type Tenancy } from './projects/tenancy.ts'

/** What the commands of an operator work with, beside a running server or without one. */
export interface Administration {
  readonly database: Database
  readonly accounts: Accounts
  readonly keys: Keys
  readonly users: Users
  readonly auditLog: AuditLog
  readonly tenancy: Tenancy
}

/** Opens the data directory for the time of `work`. */
export async function administer<T>(
  options: { readonly config: Config; readonly logger: Logger },
  work: (administration: Administration) => Promise<T>,
): Promise<T> {
  const { config, logger } = options
  const state = await openState({ config, logger, supervise: false, signal: new AbortController().signal })
  try {
    const database = state.db
    return await work({
      database,
      accounts: createAccounts({ database }),
      keys: createKeys({ database }),
      users: createUsers({ database }),
      auditLog: createAuditLog({ database }),
      tenancy: createTenancy({ database }),
    })
  } finally {
    await state.close()
  }
}
