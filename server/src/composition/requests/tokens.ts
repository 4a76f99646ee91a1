import { createAccounts } from '../../accounts/accounts.ts'
import { createKeys } from '../../accounts/keys.ts'
import { createIssuerKeys } from '../../accounts/trust/issuer-keys.ts'
import { createTrustRules } from '../../accounts/trust/rules.ts'
import { createTokenExchange, refusalsInAudit } from '../../accounts/trust/token-exchange.ts'
import type { CountRequest } from '../../http/authentication.ts'
import type { Audit } from '../../http/call.ts'
import type { TokenExchange } from '../../http/oidc-token.ts'
import { createAttemptLimiter, rememberRefusals } from '../../platform/attempts.ts'
import { createOutbound } from '../../platform/outbound.ts'
import { requestsPerHour } from '../../platform/plans.ts'
import type { Tenancy } from '../../projects/tenancy.ts'
import type { RequestComposition } from '../composition.ts'

interface TokensDependencies {
  readonly tenancy: Tenancy
  readonly audit: Audit
  readonly countRequest: CountRequest
}

/** Creates the exchange of tokens from trusted issuers for keys, and counts its outcomes in the metrics. */
export function composeTokens(
  { config, state, metrics, publicOrigin }: RequestComposition,
  { tenancy, audit, countRequest }: TokensDependencies,
): TokenExchange {
  const database = state.db
  const accounts = createAccounts({ database })
  const counts = { exchanged: 0, refused: 0 }
  metrics?.counter({
    name: 'fairlead_tokens_exchanged_total',
    help: 'Tokens of workflow runs that were exchanged for keys.',
    read: () => counts.exchanged,
  })
  metrics?.counter({
    name: 'fairlead_tokens_refused_total',
    help: 'Tokens that were not exchanged, whoever signed them.',
    read: () => counts.refused,
  })
  return createTokenExchange({
    database,
    keys: createKeys({ database }),
    rules: createTrustRules({ database }),
    issuerKeys: createIssuerKeys(createOutbound(config.outbound)),
    audit,
    limits: {
      auditedRefusals: rememberRefusals(createAttemptLimiter(database, refusalsInAudit)),
      async countRequest(accountId) {
        const account = await accounts.get(accountId)
        if (account === undefined) return undefined
        const limit = account.requestsPerHour ?? requestsPerHour(config.plans, account.plan)
        return (await countRequest(accountId, limit)).retryAfter
      },
    },
    holdProject: tenancy.hold,
    audiences: audiencesOf(publicOrigin),
    keyLifeMs: config.workflowKeyLifeMs,
    count: (outcome) => {
      counts[outcome] += 1
    },
  })
}

/** The loopback names. A server whose address has one of these names is also reachable by the other names. */
const loopback = ['127.0.0.1', 'localhost', '[::1]']

/** Returns all origins of a server; the public origin comes first. */
export function audiencesOf(publicOrigin: string): string[] {
  const { hostname } = new URL(publicOrigin)
  if (!loopback.includes(hostname)) return [publicOrigin]
  const others = loopback.filter((name) => name !== hostname)
  return [publicOrigin, ...others.map((name) => publicOrigin.replace(`//${hostname}`, `//${name}`))]
}
