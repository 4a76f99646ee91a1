import { type Accounts, createAccounts } from './accounts/accounts.ts'
import { createKeys, type Keys } from './accounts/keys.ts'
import type { Config } from './platform/config.ts'
import type { Logger } from './platform/logger.ts'
import { openState } from './platform/state.ts'
import { createTenancy, type Tenancy } from './projects/tenancy.ts'

/** What the commands of an operator work with, beside a running server or without one. */
export interface Administration {
  readonly accounts: Accounts
  readonly keys: Keys
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
    const accounts = createAccounts({ database })
    return await work({ accounts, keys: createKeys({ database }), tenancy: createTenancy({ database }) })
  } finally {
    await state.close()
  }
}
