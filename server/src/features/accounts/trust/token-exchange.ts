import type { JWTPayload } from 'jose'
import { ApiError } from '../../../contract/errors.ts'
import { isId } from '../../../contract/ids.ts'
import type { WorkflowRun } from '../../../contract/trust.ts'
import type { Audit, AuditEntry } from '../../../http/call.ts'
import type { TokenExchange } from '../../../http/oidc-token.ts'
import type { AttemptLimiter } from '../../../platform/attempts.ts'
import type { Database, Transaction } from '../../../platform/database.ts'
import type { Keys } from '../keys.ts'
import { presets } from '../scopes.ts'
import type { AccountsTables } from '../tables.ts'
import type { IssuerKeys } from './issuer-keys.ts'
import type { TrustRule, TrustRules } from './rules.ts'
import { decide, type RunFacts, runOf } from './run-claims.ts'
import { issuerOf, TokenRefused } from './token.ts'
import { identityHash, type SignedToken, usableUntil, verifyToken } from './verify.ts'

export interface ExchangeDependencies {
  readonly database: Database
  readonly rules: Pick<TrustRules, 'ofIssuer' | 'use'>
  readonly keys: Pick<Keys, 'create' | 'revoke'>
  readonly issuerKeys: IssuerKeys
  readonly audit: Audit
  readonly limits: ExchangeLimits
  /** Keeps a project from being deleted until the transaction ends; false when it is not active. */
  readonly holdProject: (transaction: Transaction, projectId: string) => Promise<boolean>
  /** The addresses of this server, which tokens for it have as their audience. Messages show the first address. */
  readonly audiences: readonly string[]
  readonly keyLifeMs: number
  readonly count: (outcome: 'exchanged' | 'refused') => void
}

interface ExchangeLimits {
  /** Limits the refusals of one project in the audit log: strangers cause them and must not fill the log. */
  readonly auditedRefusals: Pick<AttemptLimiter, 'take'>
  /**
   * Counts an exchange towards the rate limit of an account. Resolves to the seconds to wait when the limit is
   * exceeded.
   */
  readonly countRequest: (accountId: string) => Promise<number | undefined>
}

type Given = Parameters<TokenExchange['exchange']>[0]
type From = Parameters<TokenExchange['exchange']>[1]

export const refusalsInAudit = { name: 'refused tokens in the audit log', most: 60, windowMs: 3_600_000 } as const

export function createTokenExchange(dependencies: ExchangeDependencies): TokenExchange {
  const { database, keys, audit, count } = dependencies
  return {
    async exchange(given, from) {
      try {
        const made = await exchange(dependencies, given, from)
        count('exchanged')
        return made
      } catch (error) {
        if (!(error instanceof TokenRefused)) throw error
        count('refused')
        throw answerTo(error)
      }
    },

    async end(principal, from) {
      if (principal.workflow === null) {
        throw new ApiError('forbidden', 'Only a key that was exchanged for a token can end itself.')
      }
      await database.transaction().execute(async (transaction) => {
        await keys.revoke(principal.actor.id, { accountId: principal.accountId, within: transaction })
        await audit(transaction, {
          ...from,
          accountId: principal.accountId,
          actor: principal.actor,
          operation: 'oidc.end',
          projectId: [...(principal.projectIds ?? [])][0] ?? null,
          resourceId: principal.actor.id,
        })
      })
    },
  }
}

async function exchange(dependencies: ExchangeDependencies, given: Given, from: From) {
  const { rules, issuerKeys, audiences } = dependencies
  const issuer = issuerOf(given.token)
  const trusting = isId('project', given.project_id) ? await rules.ofIssuer(given.project_id, issuer) : []
  const [first] = trusting
  // A project that does not exist gets the same answer, so that strangers cannot find out which ids exist.
  if (first === undefined) {
    throw new TokenRefused(
      'issuer_not_trusted',
      'The project does not exist, or does not trust the issuer of the token.',
    )
  }
  const signed = await verifyToken(issuerKeys, given.token, { issuer, audiences })
  try {
    return await allow(dependencies, given, from, { trusting, issuer, signed })
  } catch (error) {
    if (error instanceof TokenRefused) await auditRefusal(dependencies, first, from, { claims: signed.claims, error })
    throw error
  }
}

async function allow(
  dependencies: ExchangeDependencies,
  { token }: Given,
  from: From,
  found: { readonly trusting: readonly TrustRule[]; readonly issuer: string; readonly signed: SignedToken },
) {
  const { database, rules, audit, holdProject, limits } = dependencies
  const { claims, refusal } = found.signed
  if (refusal !== undefined) throw refusal
  const run = runOf(found.issuer, claims)
  const rule = decide(found.trusting, run, claims)
  if (rule instanceof TokenRefused) throw rule
  // The owner of an issuer can sign any number of tokens, and each key takes a row.
  const retryAfter = await limits.countRequest(rule.account_id)
  if (retryAfter !== undefined) throw exceeded(retryAfter)
  return database.transaction().execute(async (transaction) => {
    const holds = (await holdProject(transaction, rule.project_id)) && (await rules.use(transaction, rule.id))
    if (!holds) throw new TokenRefused('issuer_not_trusted', 'The rule that trusts the token was just removed.')
    const isFirst = await markUsed(transaction, identityHash(found.issuer, token, claims), usableUntil(claims))
    if (!isFirst) throw new TokenRefused('reused', 'The token was exchanged before; ask the issuer for a new one.')
    const made = await makeKey(dependencies, transaction, rule, workflowRun(rule, run))
    await audit(transaction, {
      ...auditedExchange(rule, from),
      operation: 'oidc.exchange',
      resourceId: made.id,
      details: { trust_id: rule.id, claims: claimsForAudit(claims) },
    })
    return { api_key: made.key, expires_at: (made.expiresAt ?? made.createdAt).toISOString() }
  })
}

async function makeKey(
  { keys, keyLifeMs }: ExchangeDependencies,
  transaction: Transaction,
  rule: TrustRule,
  workflow: WorkflowRun,
) {
  const made = await keys.create(
    {
      accountId: rule.account_id,
      name: `Workflow of ${workflow.repository ?? workflow.actor ?? new URL(rule.issuer).host}`.slice(0, 100).trim(),
      scopes: presets.deploy,
      projectIds: [rule.project_id],
      lifeMs: keyLifeMs,
      workflow,
    },
    transaction,
  )
  return made
}

function workflowRun(rule: TrustRule, run: RunFacts): WorkflowRun {
  const text = (value: string | null) => (value === null ? null : plain(value))
  return {
    trust_id: rule.id,
    issuer: rule.issuer,
    repository: text(run.repository),
    run_url: text(run.runUrl),
    actor: text(run.actor),
    event: text(run.event),
    ref: text(run.ref),
    workflow: text(run.workflow),
    environment: text(run.environment),
  }
}

/** Returns false when the token was exchanged before, on any server. */
async function markUsed(transaction: Transaction, hash: Buffer, expiresAt: Date): Promise<boolean> {
  const { numInsertedOrUpdatedRows } = await transaction
    .withTables<AccountsTables>()
    .insertInto('used_tokens')
    .values({ hash, expires_at: expiresAt })
    .onConflict((conflict) => conflict.doNothing())
    .executeTakeFirst()
  return numInsertedOrUpdatedRows === 1n
}

export async function forgetUsedTokens(database: Database): Promise<void> {
  await database.withTables<AccountsTables>().deleteFrom('used_tokens').where('expires_at', '<', new Date()).execute()
}

async function auditRefusal(
  { database, audit, limits }: ExchangeDependencies,
  rule: TrustRule,
  from: From,
  refused: { readonly claims: JWTPayload; readonly error: TokenRefused },
): Promise<void> {
  if ((await limits.auditedRefusals.take(rule.project_id)) !== undefined) return
  await database.transaction().execute((transaction) =>
    audit(transaction, {
      ...auditedExchange(rule, from),
      operation: 'oidc.exchange_failed',
      resourceId: null,
      details: { reason: refused.error.reason, claims: claimsForAudit(refused.claims) },
    }),
  )
}

function auditedExchange(rule: TrustRule, from: From): Omit<AuditEntry, 'operation' | 'resourceId'> {
  return {
    ...from,
    accountId: rule.account_id,
    actor: { type: 'workflow', id: null, name: rule.repository },
    projectId: rule.project_id,
  }
}

/** The reasons for refusing a genuine token for this server, because no rule allows it. */
const notAllowed: ReadonlySet<string> = new Set([
  'issuer_not_trusted',
  'repository',
  'repository_id',
  'branch',
  'tag',
  'environment',
  'event',
  'workflow',
  'other_claim',
])

const exceeded = (seconds: number): ApiError =>
  new ApiError('rate_limit_exceeded', `The account of the project has used its requests. Try again in ${seconds} s.`, {
    retry_after: seconds,
  })

function answerTo({ reason, message }: TokenRefused): ApiError {
  return new ApiError(notAllowed.has(reason) ? 'forbidden' : 'unauthorized', message, { reason })
}

const mostClaims = 60
const longestValue = 300

function claimsForAudit(claims: Readonly<JWTPayload>): Record<string, string | number | boolean> {
  return Object.fromEntries(
    Object.entries(claims)
      .slice(0, mostClaims)
      .map(([name, value]) => [
        plain(name),
        typeof value === 'number' || typeof value === 'boolean'
          ? value
          : plain(typeof value === 'string' ? value : JSON.stringify(value)),
      ]),
  )
}

/** Returns a text of limited length that PostgreSQL can store and a terminal can show. */
function plain(text: string): string {
  return text
    .toWellFormed()
    .replace(/\p{Cc}+/gu, ' ')
    .slice(0, longestValue)
    .toWellFormed()
}
