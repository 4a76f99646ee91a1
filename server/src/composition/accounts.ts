import { type Accounts, createAccounts, describeAccount } from '../accounts/accounts.ts'
import { createApiKeys } from '../accounts/api-keys.ts'
import { type AuditLog, createAuditLog } from '../accounts/audit-log.ts'
import { createAuthentication } from '../accounts/authentication.ts'
import { accountHandlers } from '../accounts/handlers.ts'
import { createKeys } from '../accounts/keys.ts'
import { createPasswords } from '../accounts/passwords.ts'
import { createRateLimiter } from '../accounts/rate-limiter.ts'
import { createSessions } from '../accounts/sessions.ts'
import { setupUrl } from '../accounts/setup-url.ts'
import { createSignIn } from '../accounts/sign-in/sign-in.ts'
import { createUsers } from '../accounts/users.ts'
import type { Api } from '../http/application/application.ts'
import type { HandlersOf } from '../http/call.ts'
import type { Transaction } from '../platform/database.ts'
import type { Tier } from '../platform/plans.ts'
import type { Tenancy } from '../projects/tenancy.ts'
import type { Composition } from './composition.ts'

/** The accounts feature, as other composers use it. */
export interface AccountsFeature {
  readonly handlers: HandlersOf<'account' | 'apiKeys' | 'auditLog'>
  readonly keys: Api['keys']
  readonly dashboard: Api['dashboard']
  readonly audit: AuditLog['write']
  /** Reads the tier of an account in the transaction of a change. */
  readonly tierOf: (transaction: Transaction, accountId: string) => Promise<Tier>
}

/** The work of the leader on accounts. */
export interface AccountsWork {
  /** Removes sessions, setup links and audit entries that are too old. */
  forget(): Promise<void>
  /** Logs the link that makes the first user, while there is none. */
  logSetupLink(): Promise<void>
}

export async function composeAccounts(composition: Composition, tenancy: Tenancy): Promise<AccountsFeature> {
  const { config, state } = composition
  const database = state.db
  const accounts = createAccounts({ database })
  const operatorId = await accounts.ensureOperator()
  const users = createUsers({ database })
  const sessions = createSessions({ database })
  const auditLog = createAuditLog({ database })
  const signIn = {
    database,
    accounts,
    users,
    sessions,
    passwords: createPasswords(),
    audit: auditLog.write,
    operatorId,
  }
  return {
    handlers: composeAccountHandlers(composition, tenancy, auditLog),
    keys: {
      authenticate: createAuthentication({ database, plans: config.plans }),
      countRequest: createRateLimiter({ database }).count,
    },
    dashboard: { authenticate: sessions.authenticate, handlers: createSignIn(signIn) },
    audit: auditLog.write,
    tierOf: (transaction, accountId) => tierOf(accounts, transaction, accountId),
  }
}

export async function leadAccounts({ config, logger, state, publicOrigin }: Composition): Promise<AccountsWork> {
  const database = state.db
  const operatorId = await createAccounts({ database }).ensureOperator()
  const users = createUsers({ database })
  const sessions = createSessions({ database })
  const auditLog = createAuditLog({ database })
  return {
    async forget() {
      await sessions.forget()
      await users.forget()
      await auditLog.forget(config.auditRetentionDays)
    },

    async logSetupLink() {
      if (await users.any()) return
      const link = setupUrl(publicOrigin, await users.createSetupLink(operatorId))
      logger.info({ link }, 'there is no user yet: open this link within an hour to make the first one')
    },
  }
}

async function tierOf(accounts: Accounts, transaction: Transaction, accountId: string): Promise<Tier> {
  return (await accounts.get(accountId, transaction))?.plan ?? 'free'
}

function composeAccountHandlers(
  { config, state }: Composition,
  tenancy: Tenancy,
  auditLog: AuditLog,
): AccountsFeature['handlers'] {
  const database = state.db
  return accountHandlers({
    describe: (accountId) => describeAccount({ database, plans: config.plans }, accountId),
    apiKeys: createApiKeys({
      keys: createKeys({ database }),
      ownsProject: async (accountId, id) => (await tenancy.find(accountId, id)) !== undefined,
    }),
    auditLog,
  })
}
