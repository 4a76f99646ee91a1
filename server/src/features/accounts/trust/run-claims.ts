import type { JWTPayload } from 'jose'
import { type IssuerKind, issuerKind } from '../../../contract/trust.ts'
import { type RefusalReason, TokenRefused } from './token.ts'
import { claimOfWrongType } from './verify.ts'

/** The conditions of a rule; `null` for a condition that the rule does not have. */
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
 * Returns the first rule whose conditions a run meets, or the refusal of the rule that it meets furthest. The message
 * states what the token claims and reveals nothing about the rules.
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

/** The checks of a rule in a fixed order: the most informative first. */
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

/** A rule must name pull requests: anybody can propose their code. They never match from other repositories. */
function eventMatches(wanted: string | null, run: RunFacts): boolean {
  if (run.isPullRequest) return wanted !== null && wanted === run.event && wanted !== 'pull_request_target'
  return wanted === null || (run.event !== null && matches(wanted, run.event))
}

const isExactly = (wanted: string | null, value: string | null): boolean => wanted === null || wanted === value

/** True when a text matches a pattern, in which `*` stands for any characters. */
export function matches(pattern: string, value: string): boolean {
  const [first = '', ...rest] = pattern.split('*')
  if (rest.length === 0) return value === first
  const last = rest.pop() ?? ''
  if (!value.startsWith(first)) return false
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

/** The facts that a token states about its run, under the field names of a rule; `null` where it states nothing. */
export interface RunFacts {
  readonly repository: string | null
  readonly repositoryId: string | null
  /** The full name of the branch or tag, such as `refs/heads/main`. */
  readonly ref: string | null
  readonly environment: string | null
  readonly event: string | null
  readonly workflow: string | null
  readonly actor: string | null
  readonly runUrl: string | null
  /** True when the run builds proposed code, perhaps from a fork. */
  readonly isPullRequest: boolean
}

type Claims = Readonly<JWTPayload>
type Reader = (claims: Claims, issuer: string) => Omit<RunFacts, 'isPullRequest'>

const none = {
  repository: null,
  repositoryId: null,
  ref: null,
  environment: null,
  event: null,
  workflow: null,
  actor: null,
  runUrl: null,
}

const readers: Readonly<Record<Exclude<IssuerKind, 'other'>, Reader>> = {
  github: likeGitHub,
  forgejo: likeGitHub,
  gitlab: (claims, issuer) => {
    const project = text(claims, 'project_path')
    const pipeline = text(claims, 'pipeline_id')
    return {
      repository: project,
      repositoryId: text(claims, 'project_id'),
      ref: gitLabRef(claims),
      environment: text(claims, 'environment'),
      event: text(claims, 'pipeline_source'),
      workflow: fileOf(text(claims, 'ci_config_ref_uri'), `${new URL(issuer).host}/${project}//`),
      actor: text(claims, 'user_login'),
      runUrl: project && pipeline && `${issuer}/${project}/-/pipelines/${pipeline}`,
    }
  },
  buildkite: (claims) => {
    const organization = text(claims, 'organization_slug')
    const pipeline = text(claims, 'pipeline_slug')
    const [branch, tag] = [text(claims, 'build_branch'), text(claims, 'build_tag')]
    const repository = organization && pipeline && `${organization}/${pipeline}`
    return {
      ...none,
      repository,
      repositoryId: text(claims, 'pipeline_id'),
      ref: tag !== null ? `refs/tags/${tag}` : branch && `refs/heads/${branch}`,
      event: text(claims, 'build_source'),
      runUrl: repository && `https://buildkite.com/${repository}/builds/${wholeNumber(claims, 'build_number')}`,
    }
  },
  circleci: (claims) => ({
    ...none,
    repository: text(claims, 'oidc.circleci.com/vcs-origin'),
    repositoryId: text(claims, 'oidc.circleci.com/project-id'),
    ref: text(claims, 'oidc.circleci.com/vcs-ref'),
  }),
  google: (claims) => ({ ...none, actor: text(claims, 'email') }),
}

/**
 * Returns what a token states about its run. The issuer's address decides how claims are read: one issuer may let its
 * users choose a claim that another issuer vouches for.
 *
 * @throws TokenRefused when a claim that is read is not text
 */
export function runOf(issuer: string, claims: Claims): RunFacts {
  const kind = issuerKind(issuer)
  const format = kind === 'other' ? (Object.hasOwn(claims, 'project_path') ? 'gitlab' : 'github') : kind
  const facts = readers[format](claims, issuer)
  const { ref, event } = facts
  // Buildkite writes branches of forks as `user:branch`, CircleCI writes them as `pull/number`.
  const forks = { buildkite: /^refs\/heads\/[^:]+:/, circleci: /^refs\/heads\/pull\/\d+/ }
  const ofFork = (kind === 'buildkite' || kind === 'circleci') && forks[kind].test(ref ?? '')
  const proposed = /^refs\/(pull|merge-requests)\//.test(ref ?? '') || /(^|_)(pull|merge)_request/.test(event ?? '')
  return { ...facts, isPullRequest: proposed || ofFork }
}

function likeGitHub(claims: Claims, issuer: string): Omit<RunFacts, 'isPullRequest'> {
  const repository = text(claims, 'repository')
  const run = text(claims, 'run_id')
  return {
    repository,
    repositoryId: text(claims, 'repository_id'),
    ref: text(claims, 'ref'),
    environment: text(claims, 'environment'),
    event: text(claims, 'event_name'),
    workflow: fileOf(text(claims, 'workflow_ref'), `${repository}/`)?.replace(/^\.\w+\/workflows\//, '') ?? null,
    actor: text(claims, 'actor'),
    runUrl: repository && run && `${gitHubOrigin(issuer)}/${repository}/actions/runs/${run}`,
  }
}

function gitHubOrigin(issuer: string): string {
  const { origin, hostname } = new URL(issuer)
  return hostname === 'token.actions.githubusercontent.com' ? 'https://github.com' : origin
}

/** Returns the file of `<place><file>@<ref>`; for a file elsewhere, everything before `@`. */
function fileOf(reference: string | null, place: string): string | null {
  const path = reference?.replace(/@.*$/, '') ?? null
  return path?.startsWith(place) === true ? path.slice(place.length) : path
}

/** Older versions of GitLab give only the short name of a branch or tag. */
function gitLabRef(claims: Claims): string | null {
  const path = text(claims, 'ref_path')
  const [name, type] = [text(claims, 'ref'), text(claims, 'ref_type')]
  if (path !== null || name === null) return path
  return type === 'tag' ? `refs/tags/${name}` : type === 'branch' ? `refs/heads/${name}` : null
}

/** Returns a claim; `null` when it is missing or empty. */
function text(claims: Claims, name: string): string | null {
  const value = Object.hasOwn(claims, name) ? claims[name] : undefined
  if (value === undefined || value === null || value === '') return null
  if (typeof value !== 'string') throw claimOfWrongType(name)
  return value
}

function wholeNumber(claims: Claims, name: string): number {
  const value = claims[name]
  if (typeof value !== 'number' || !Number.isSafeInteger(value)) throw claimOfWrongType(name)
  return value
}
