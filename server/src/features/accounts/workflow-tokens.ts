import type { CountRequest } from '../../http/authentication.ts'
import type { Audit } from '../../http/call.ts'
import type { TokenExchange } from '../../http/oidc-token.ts'
import { createAttemptLimiter, rememberRefusals } from '../../platform/attempts.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import type { Metrics } from '../../platform/metrics.ts'
import type { Outbound } from '../../platform/outbound.ts'
import { type Plans, requestsPerHour } from '../../platform/plans.ts'
import type { AccountStore } from './accounts.ts'
import type { Keys } from './keys.ts'
import { createIssuerKeys } from './trust/issuer-keys.ts'
import type { TrustRules } from './trust/rules.ts'
import { createTokenExchange, refusalsInAudit } from './trust/token-exchange.ts'

export interface WorkflowTokensDependencies {
  readonly database: Database
  readonly plans: Plans
  readonly publicOrigin: string
  /** The lifetime of a key that was exchanged for a token, in milliseconds. */
  readonly keyLifeMs: number
  readonly outbound: Outbound
  /** `null` when the metrics cannot be read. */
  readonly metrics: Pick<Metrics, 'counter'> | null
  readonly accounts: Pick<AccountStore, 'get'>
  readonly keys: Pick<Keys, 'create' | 'revoke'>
  readonly rules: Pick<TrustRules, 'ofIssuer' | 'use'>
  readonly audit: Audit
  readonly countRequest: CountRequest
  /** Keeps the project from being deleted until the transaction ends; false when it is no longer active. */
  readonly holdProject: (transaction: Transaction, projectId: string) => Promise<boolean>
}

/** Creates the exchange of tokens of trusted issuers for keys, and counts its outcomes. */
export function createWorkflowTokens(dependencies: WorkflowTokensDependencies): TokenExchange {
  const { database, plans, publicOrigin, outbound, metrics, accounts, countRequest } = dependencies
  const counts = { exchanged: 0, refused: 0 }
  metrics?.counter({
    name: 'fairlead_tokens_exchanged_total',
    help: 'Tokens of workflow runs that were exchanged for keys.',
    read: () => counts.exchanged,
  })
  metrics?.counter({
    name: 'fairlead_tokens_refused_total',
    help: 'Tokens that were not exchanged, from all issuers.',
    read: () => counts.refused,
  })
  return createTokenExchange({
    database,
    keys: dependencies.keys,
    rules: dependencies.rules,
    issuerKeys: createIssuerKeys(outbound),
    audit: dependencies.audit,
    limits: {
      auditedRefusals: rememberRefusals(createAttemptLimiter(database, refusalsInAudit)),
      async countRequest(accountId) {
        const account = await accounts.get(accountId)
        if (account === undefined) return undefined
        const limit = account.requestsPerHour ?? requestsPerHour(plans, account.plan)
        return (await countRequest(accountId, limit)).retryAfter
      },
    },
    holdProject: dependencies.holdProject,
    audiences: audiencesOf(publicOrigin),
    keyLifeMs: dependencies.keyLifeMs,
    count: (outcome) => {
      counts[outcome] += 1
    },
  })
}

/** A server with one of these names is also reachable by the other names. */
const loopback = ['127.0.0.1', 'localhost', '[::1]']

/** Returns all origins of a server, first the public origin. */
function audiencesOf(publicOrigin: string): string[] {
  const { hostname } = new URL(publicOrigin)
  if (!loopback.includes(hostname)) return [publicOrigin]
  const others = loopback.filter((name) => name !== hostname)
  return [publicOrigin, ...others.map((name) => publicOrigin.replace(`//${hostname}`, `//${name}`))]
}
