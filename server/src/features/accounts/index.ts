import type { Api } from '../../http/application.ts'
import type { TenantProject } from '../../http/principal.ts'
import { createTotals, type Totals } from '../../platform/account-limits.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import type { LeaderParts } from '../../platform/leadership/leader-parts.ts'
import type { Logger } from '../../platform/logger.ts'
import type { Metrics } from '../../platform/metrics.ts'
import type { Outbound } from '../../platform/outbound.ts'
import { accountLimits, type Plans, type Tier } from '../../platform/plans.ts'
import { createAccountStore, describeAccount, tierOf } from './accounts.ts'
import { createAuditLog } from './audit-log.ts'
import { createAuthentication, validCredentials } from './authentication.ts'
import { createDeviceLogins, deviceEndpoints, deviceHandlers } from './device-login.ts'
import { type AccountHandlers, accountHandlers } from './handlers.ts'
import { createApiKeys, createKeys } from './keys.ts'
import { createPasswords } from './passwords.ts'
import { createRateLimiter } from './rate-limiter.ts'
import { presets } from './scopes.ts'
import { createSessions } from './sessions.ts'
import { setupUrl } from './setup-url.ts'
import { createSignIn } from './sign-in.ts'
import { createAttempts, createDevices, createRecorder } from './sign-in-attempts.ts'
import { createTrustRules, forgetWorkflowKeys } from './trust/rules.ts'
import { forgetUsedTokens } from './trust/token-exchange.ts'
import { createUsers } from './users.ts'
import { createWorkflowTokens } from './workflow-tokens.ts'

/** The overview counts what other features have, and they need accounts: it comes after them. */
export { createOverview, type Overview, type OverviewParts } from './overview.ts'

export interface AccountsParts {
  readonly database: Database
  readonly plans: Plans
  /** The public address of the server, without a path. */
  readonly publicOrigin: string
  /** The lifetime of a key that was exchanged for a token of a workflow run, in milliseconds. */
  readonly workflowKeyLifeMs: number
  readonly auditRetentionDays: number
  readonly outbound: Outbound
  /** `null` when the metrics cannot be read. */
  readonly metrics: Pick<Metrics, 'counter'> | null
  readonly logger: Logger
  /** Returns the project if it belongs to this account. */
  readonly findProject: (accountId: string, projectId: string, on: Transaction) => Promise<TenantProject | undefined>
  /** Keeps the project from being deleted until the transaction ends; false when it is no longer active. */
  readonly holdProject: (transaction: Transaction, projectId: string) => Promise<boolean>
}

export interface Accounts extends Pick<Api, 'keys' | 'dashboard' | 'deviceLogin' | 'tokens' | 'audit'> {
  readonly handlers: AccountHandlers
  readonly operatorId: string
  /** Returns the tier of an account; `free` when there is no such account. */
  readonly tierOf: (on: Database | Transaction, accountId: string) => Promise<Tier>
  readonly totals: Totals
  /** Returns the ids of the keys and sessions that are neither revoked nor expired. */
  readonly validCredentials: (on: Database, ids: readonly string[]) => Promise<ReadonlySet<string>>
  lead(leader: Pick<LeaderParts, 'database'>): AccountsWork
}

export interface AccountsWork {
  /** Deletes sessions, links, logins, keys of workflows, used tokens and audit entries past their retention. */
  forget(): Promise<void>
  /** Logs the setup link for the first user, while no user exists. */
  logSetupLink(): Promise<void>
}

/** Creates the account of the operator if it does not exist. */
export async function createAccounts(parts: AccountsParts): Promise<Accounts> {
  const { database, plans, publicOrigin, findProject, holdProject } = parts
  const accounts = createAccountStore({ database })
  const operatorId = await accounts.ensureOperator()
  const users = createUsers({ database })
  const sessions = createSessions({ database, plans })
  const auditLog = createAuditLog({ database })
  const totals = createTotals({ plans, tierOf })
  const keys = createKeys({ database })
  const logins = createDeviceLogins({ database })
  const trust = createTrustRules({ database })
  const { count: countRequest } = createRateLimiter({ database, windows: 'rate_windows' })
  const assertRoom = (transaction: Transaction, accountId: string) =>
    totals.assertRoom(transaction, accountId, 'api_keys', () => keys.countValid(transaction, accountId))
  return {
    handlers: accountHandlers({
      describe: (accountId) => describeAccount({ database, plans }, accountId),
      trust,
      apiKeys: createApiKeys({
        keys,
        totals,
        ownsProject: async (transaction, accountId, id) =>
          (await findProject(accountId, id, transaction)) !== undefined,
      }),
      auditLog,
    }),
    keys: {
      authenticate: createAuthentication({ database, plans }),
      countRequest,
    },
    dashboard: {
      authenticate: sessions.authenticate,
      countRequest: createRateLimiter({ database, windows: 'session_rate_windows' }).count,
      handlers: {
        ...createSignIn({
          database,
          accounts,
          users,
          sessions,
          passwords: createPasswords(),
          audit: auditLog.write,
          operatorId,
        }),
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
    tokens: createWorkflowTokens({
      database,
      plans,
      publicOrigin,
      keyLifeMs: parts.workflowKeyLifeMs,
      outbound: parts.outbound,
      metrics: parts.metrics,
      accounts,
      keys,
      rules: trust,
      audit: auditLog.write,
      countRequest,
      holdProject,
    }),
    audit: auditLog.write,
    operatorId,
    tierOf,
    totals,
    validCredentials,
    lead: (leader) => leadAccounts(parts, leader.database, operatorId),
  }
}

/** Short, because each run of a workflow creates keys, which would fill the list of keys. */
const workflowKeysKeptDays = 7

function leadAccounts(
  {
    plans,
    publicOrigin,
    auditRetentionDays,
    logger,
  }: Pick<AccountsParts, 'plans' | 'publicOrigin' | 'auditRetentionDays' | 'logger'>,
  database: Database,
  operatorId: string,
): AccountsWork {
  const accounts = createAccountStore({ database })
  const users = createUsers({ database })
  const sessions = createSessions({ database, plans })
  const devices = createDevices({ database })
  const logins = createDeviceLogins({ database })
  const auditLog = createAuditLog({ database })
  return {
    async forget() {
      await sessions.forget()
      await devices.forget()
      await logins.forget()
      await users.forget()
      await forgetWorkflowKeys(database, workflowKeysKeptDays)
      await forgetUsedTokens(database)
      await auditLog.forget(auditRetentionDays)
      for (const { id, plan } of await accounts.list()) {
        await auditLog.keepNewest(id, accountLimits(plans, plan).audit_entries)
      }
    },

    async logSetupLink() {
      if (await users.any()) return
      const link = setupUrl(publicOrigin, await users.createSetupLink(operatorId))
      logger.info({ link }, 'there is no user yet: open this link within an hour to make the first one')
    },
  }
}
