import type { JWTPayload } from 'jose'
import { type IssuerKind, issuerKind } from '../../contract/issuers.ts'
import { claimOfWrongType } from './verify.ts'

/** The facts that a token tells of its run, by the fields of a rule. `null` where it does not tell. */
export interface RunFacts {
  readonly repository: string | null
  readonly repositoryId: string | null
  /** The whole name of the branch or tag, such as `refs/heads/main`. */
  readonly ref: string | null
  readonly environment: string | null
  readonly event: string | null
  readonly workflow: string | null
  readonly actor: string | null
  readonly runUrl: string | null
  /** True when it builds what somebody proposes, perhaps from a fork. */
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

/** The readers of claims, by the names that each issuer documents. */
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
 * Returns what a token tells of its run. The issuer's address decides how claims are read, so that a claim which one
 * issuer lets its users choose is never taken for one that another issuer vouches for.
 *
 * @throws TokenRefused when a claim that is read is no text
 */
export function runOf(issuer: string, claims: Claims): RunFacts {
  const kind = issuerKind(issuer)
  const known = kind === 'other' ? (Object.hasOwn(claims, 'project_path') ? 'gitlab' : 'github') : kind
  const facts = readers[known](claims, issuer)
  const { ref, event } = facts
  // Buildkite writes branches of forks as `user:branch`, CircleCI as `pull/number`.
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

/** The site on which people see the runs of an issuer. */
function gitHubOrigin(issuer: string): string {
  const { origin, hostname } = new URL(issuer)
  return hostname === 'token.actions.githubusercontent.com' ? 'https://github.com' : origin
}

/** Returns the file of `<place><file>@<ref>`; the whole without the ref when it lies elsewhere. */
function fileOf(reference: string | null, place: string): string | null {
  const path = reference?.replace(/@.*$/, '') ?? null
  return path?.startsWith(place) === true ? path.slice(place.length) : path
}

/** Older versions of GitLab give the name of a branch or tag alone. */
function gitLabRef(claims: Claims): string | null {
  const path = text(claims, 'ref_path')
  const [name, type] = [text(claims, 'ref'), text(claims, 'ref_type')]
  if (path !== null || name === null) return path
  return type === 'tag' ? `refs/tags/${name}` : type === 'branch' ? `refs/heads/${name}` : null
}

/** Returns a claim; `null` when there is none, or an empty one. */
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
