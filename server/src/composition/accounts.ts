import { type Accounts, createAccounts, describeAccount } from '../accounts/accounts.ts'
import { type AuditLog, createAuditLog } from '../accounts/audit-log.ts'
import { createAuthentication } from '../accounts/authentication.ts'
import { createDeviceLogins, deviceEndpoints, deviceHandlers } from '../accounts/device-login.ts'
import { type AccountHandlers, accountHandlers } from '../accounts/handlers.ts'
import { createApiKeys, createKeys } from '../accounts/keys.ts'
import { createPasswords } from '../accounts/passwords.ts'
import { createRateLimiter } from '../accounts/rate-limiter.ts'
import { presets } from '../accounts/scopes.ts'
import { createSessions } from '../accounts/sessions.ts'
import { setupUrl } from '../accounts/setup-url.ts'
import { createSignIn } from '../accounts/sign-in.ts'
import { createAttempts, createDevices, createRecorder } from '../accounts/sign-in-attempts.ts'
import { createTrustRules, forgetWorkflowKeys } from '../accounts/trust/rules.ts'
import { forgetUsedTokens } from '../accounts/trust/token-exchange.ts'
import { createUsers } from '../accounts/users.ts'
import type { Api } from '../http/application.ts'
import { createTotals, type Totals } from '../platform/account-limits.ts'
import type { Database, Transaction } from '../platform/database.ts'
import { accountLimits, type Tier } from '../platform/plans.ts'
import type { Tenancy } from '../projects/tenancy.ts'
import type { Composition, RequestComposition } from './composition.ts'
import { composeTokens } from './requests/tokens.ts'

/** The parts of the accounts feature that other composers use. */
export interface AccountsFeature {
  readonly handlers: AccountHandlers
  readonly keys: Api['keys']
  readonly dashboard: Api['dashboard']
  readonly deviceLogin: Api['deviceLogin']
  readonly tokens: Api['tokens']
  readonly audit: AuditLog['write']
  /** Reads the tier of an account in the transaction of a change. */
  readonly tierOf: (on: Database | Transaction, accountId: string) => Promise<Tier>
  /** The limits of whole accounts. */
  readonly totals: Totals
}

/** The work of the leader on accounts. */
export interface AccountsWork {
  /** The limits of whole accounts. */
  readonly totals: Totals
  /**
   * Deletes what is past its retention: sessions, setup links, logins of commands, keys of workflows, used tokens,
   * audit entries.
   */
  forget(): Promise<void>
  /** Logs the setup link for the first user, while no user exists. */
  logSetupLink(): Promise<void>
}

export async function composeAccounts(composition: RequestComposition, tenancy: Tenancy): Promise<AccountsFeature> {
  const { config, state, publicOrigin } = composition
  const database = state.db
  const accounts = createAccounts({ database })
  const operatorId = await accounts.ensureOperator()
  const users = createUsers({ database })
  const sessions = createSessions({ database, plans: config.plans })
  const auditLog = createAuditLog({ database })
  const totals = createTotals({ plans: config.plans, tierOf: (on, id) => tierOf(accounts, on, id) })
  const keys = createKeys({ database })
  const logins = createDeviceLogins({ database })
  const { count: countRequest } = createRateLimiter({ database, windows: 'rate_windows' })
  const assertRoom = (transaction: Transaction, accountId: string) =>
    totals.assertRoom(transaction, accountId, 'api_keys', () => keys.countValid(transaction, accountId))
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
    totals,
    handlers: composeAccountHandlers(composition, tenancy, auditLog, totals),
    keys: {
      authenticate: createAuthentication({ database, plans: config.plans }),
      countRequest,
    },
    dashboard: {
      authenticate: sessions.authenticate,
      countRequest: createRateLimiter({ database, windows: 'session_rate_windows' }).count,
      handlers: {
        ...createSignIn(signIn),
        ...deviceHandlers({
          database,
          logins,
          assertRoom,
          attempts: createAttempts(database, createDevices({ database })),
          record: createRecorder(auditLog.write),
        }),
      },
    },
    deviceLogin: deviceEndpoints({
      database,
      logins,
      audit: auditLog.write,
      origin: publicOrigin,
      async makeKey(transaction, accountId, machine) {
        await assertRoom(transaction, accountId)
        const name = [...`fairlead login on ${machine}`].slice(0, 100).join('')
        return keys.create({ accountId, name, scopes: presets.full, projectIds: null }, transaction)
      },
    }) as Api['deviceLogin'],
    tokens: composeTokens(composition, { tenancy, audit: auditLog.write, countRequest }),
    audit: auditLog.write,
    tierOf: (on, accountId) => tierOf(accounts, on, accountId),
  }
}

/** Short, because each run of a workflow creates keys, which would fill the list of keys. */
const workflowKeysKeptDays = 7

export async function leadAccounts({ config, logger, state, publicOrigin }: Composition): Promise<AccountsWork> {
  const database = state.db
  const accounts = createAccounts({ database })
  const operatorId = await accounts.ensureOperator()
  const users = createUsers({ database })
  const sessions = createSessions({ database, plans: config.plans })
  const devices = createDevices({ database })
  const logins = createDeviceLogins({ database })
  const auditLog = createAuditLog({ database })
  return {
    totals: createTotals({ plans: config.plans, tierOf: (on, id) => tierOf(accounts, on, id) }),

    async forget() {
      await sessions.forget()
      await devices.forget()
      await logins.forget()
      await users.forget()
      await forgetWorkflowKeys(database, workflowKeysKeptDays)
      await forgetUsedTokens(database)
      await auditLog.forget(config.auditRetentionDays)
      for (const { id, plan } of await accounts.list()) {
        await auditLog.keepNewest(id, accountLimits(config.plans, plan).audit_entries)
      }
    },

    async logSetupLink() {
      if (await users.any()) return
      const link = setupUrl(publicOrigin, await users.createSetupLink(operatorId))
      logger.info({ link }, 'there is no user yet: open this link within an hour to make the first one')
    },
  }
}

async function tierOf(accounts: Accounts, on: Database | Transaction, accountId: string): Promise<Tier> {
  return (await accounts.get(accountId, on))?.plan ?? 'free'
}

function composeAccountHandlers(
  { config, state }: Composition,
  tenancy: Tenancy,
  auditLog: AuditLog,
  totals: Totals,
): AccountHandlers {
  const database = state.db
  return accountHandlers({
    describe: (accountId) => describeAccount({ database, plans: config.plans }, accountId),
    trust: createTrustRules({ database }),
    apiKeys: createApiKeys({
      keys: createKeys({ database }),
      totals,
      ownsProject: async (transaction, accountId, id) => (await tenancy.find(accountId, id, transaction)) !== undefined,
    }),
    auditLog,
  })
}
