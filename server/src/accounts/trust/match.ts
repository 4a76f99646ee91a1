import type { JWTPayload } from 'jose'
import { type RefusalReason, TokenRefused } from './refusal.ts'
import type { RunFacts } from './run-of.ts'

/** The conditions of a rule; `null` for those that it does not have. */
export interface Conditions {
  readonly repository: string | null
  readonly repository_id: string | null
  readonly branch: string | null
  readonly tag: string | null
  readonly environment: string | null
  readonly event: string | null
  readonly workflow: string | null
  readonly claims: Readonly<Record<string, string>>
}

/**
 * Returns the first rule that a run matches as a whole, or the refusal of the one that it matches furthest. The message
 * tells what the token says, and nothing of the rules.
 */
export function decide<Rule extends Conditions>(
  rules: readonly Rule[],
  run: RunFacts,
  claims: Readonly<JWTPayload>,
): Rule | TokenRefused {
  const results = rules.map((rule) => {
    const checks = checksOf(rule, run, claims)
    const failed = checks.findIndex(({ ok }) => !ok)
    return { rule, matched: failed === -1 ? checks.length : failed, failed: checks[failed] }
  })
  const allowed = results.find(({ failed }) => failed === undefined)
  if (allowed !== undefined) return allowed.rule
  const closest = results.sort((one, other) => other.matched - one.matched)[0]?.failed
  return closest === undefined
    ? new TokenRefused('issuer_not_trusted', 'No rule of the project trusts the issuer of the token.')
    : new TokenRefused(closest.reason, messageOf(closest))
}

interface Check {
  readonly reason: RefusalReason
  readonly name: string
  readonly value: string | null
  readonly ok: boolean
}

/** The checks of a rule in a fixed order: the most telling first. */
function checksOf(rule: Conditions, run: RunFacts, claims: Readonly<JWTPayload>): Check[] {
  const check = (reason: RefusalReason, name: string, wanted: string | null, value: string | null): Check => ({
    reason,
    name,
    value,
    ok: wanted === null || (value !== null && matches(wanted, value)),
  })
  return [
    { ...check('repository', 'repository', null, run.repository), ok: isExactly(rule.repository, run.repository) },
    { ...check('repository_id', 'id', null, run.repositoryId), ok: isExactly(rule.repository_id, run.repositoryId) },
    { reason: 'event', name: 'event', value: run.event, ok: eventMatches(rule.event, run) },
    check('branch', 'branch', rule.branch, nameIn(run.ref, 'refs/heads/')),
    check('tag', 'tag', rule.tag, nameIn(run.ref, 'refs/tags/')),
    check('environment', 'environment', rule.environment, run.environment),
    check('workflow', 'workflow', rule.workflow, run.workflow),
    ...Object.entries(rule.claims).map(([name, wanted]) =>
      check('other_claim', `claim ${name}`, wanted, textClaim(claims, name)),
    ),
  ]
}

/** Pull requests must be named, because their code is what somebody proposes; those of other repositories never count. */
function eventMatches(wanted: string | null, run: RunFacts): boolean {
  if (run.isPullRequest) return wanted !== null && wanted === run.event && wanted !== 'pull_request_target'
  return wanted === null || (run.event !== null && matches(wanted, run.event))
}

const isExactly = (wanted: string | null, value: string | null): boolean => wanted === null || wanted === value

/** True when a text is that of a pattern, in which `*` stands for any characters. */
export function matches(pattern: string, value: string): boolean {
  const [first = '', ...rest] = pattern.split('*')
  if (rest.length === 0) return value === first
  const last = rest.pop() ?? ''
  if (!value.startsWith(first)) return false
  // Each part is searched for after the one before; the last one must be at the end.
  let at = first.length
  for (const part of rest) {
    const found = value.indexOf(part, at)
    if (found === -1) return false
    at = found + part.length
  }
  return value.length - last.length >= at && value.endsWith(last)
}

function nameIn(ref: string | null, prefix: string): string | null {
  return ref?.startsWith(prefix) === true ? ref.slice(prefix.length) : null
}

function textClaim(claims: Readonly<JWTPayload>, name: string): string | null {
  const value = Object.hasOwn(claims, name) ? claims[name] : null
  return typeof value === 'string' ? value : null
}

function messageOf({ name, value }: Check): string {
  return value === null
    ? `No rule of the project trusts a run without ${name === 'environment' ? 'an' : 'a'} ${name}.`
    : `No rule of the project trusts the ${name} ${JSON.stringify(value.slice(0, 200))}.`
}
