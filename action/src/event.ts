/** The environment of the process, as the runner sets it. */
export type Environment = Readonly<Record<string, string | undefined>>

export interface Repository {
  /** `owner/name`. */
  readonly fullName: string
  /** Without its owner. */
  readonly name: string
  /** The address that git clones from. */
  readonly gitUrl: string
}

/** Which code a run is about, and what is to be done with it. */
export interface WorkflowEvent {
  /** Such as `push`. */
  readonly name: string
  /** The repository that the workflow runs for; absent outside of a workflow. */
  readonly repository?: Repository
  /** What the code is fetched from; differs from the repository for a fork. */
  readonly gitUrl?: string
  /** Absent for a tag, a release and a bare commit. */
  readonly branch?: string
  /** The full hash of the commit. */
  readonly commit?: string
  readonly pullRequest?: { readonly number: number; readonly closed: boolean }
  /** The code belongs to a pull request whose number the event does not tell. */
  readonly unknownPullRequest?: true
  /** The full name of the fork that the code comes from. */
  readonly fork?: string
  /** Why there is nothing to deploy. */
  readonly skip?: string
  /** What is in front of the merge queue is not merged yet. */
  readonly mergeGroup?: true
}

type Code = Omit<WorkflowEvent, 'name' | 'repository' | 'gitUrl'>

/** What the rules below look at. */
interface Run {
  readonly env: Environment
  readonly payload: unknown
  readonly repository: Repository | undefined
}

/**
 * Which code each event means. GitHub's own GITHUB_SHA and GITHUB_REF are right for events that are about a ref; for
 * those about a pull request they name a merge that exists at GitHub alone, and for `workflow_run` the default branch.
 */
const rules: Readonly<Record<string, (run: Run) => Code>> = {
  push: (run) => (at(run.payload, 'deleted') === true ? deleted(run.env['GITHUB_REF']) : ofRef(run)),
  delete: ({ payload }) => deleted(text(payload, 'ref')),
  release: ofRelease,
  pull_request: ofPullRequest,
  pull_request_target: ofPullRequest,
  pull_request_review: ofPullRequest,
  pull_request_review_comment: ofPullRequest,
  workflow_run: ofWorkflowRun,
  merge_group: ({ payload }) => ({
    ...optional('branch', branchOfRef(text(payload, 'merge_group', 'head_ref'))),
    ...optional('commit', hash(text(payload, 'merge_group', 'head_sha'))),
    mergeGroup: true,
  }),
}

/** Reads what the runner tells of the event. `payload` is the parsed file of GITHUB_EVENT_PATH. */
export function readEvent(env: Environment, payload: unknown): WorkflowEvent {
  const name = env['GITHUB_EVENT_NAME'] ?? ''
  const repository = repositoryOf(env)
  const rule = Object.hasOwn(rules, name) ? rules[name] : undefined
  const code = (rule ?? ofRef)({ env, payload, repository })
  const source = code.fork === undefined ? repository : repositoryOf({ ...env, GITHUB_REPOSITORY: code.fork })
  return { name, ...optional('repository', repository), ...optional('gitUrl', source?.gitUrl), ...code }
}

/** Pushes, tags, `workflow_dispatch`, `schedule` and whatever else runs on a ref. */
function ofRef({ env, payload }: Run): Code {
  const ref = env['GITHUB_REF'] ?? ''
  // Of an annotated tag, `after` is the tag itself; its commit is the head commit.
  const pushed = text(payload, 'head_commit', 'id') ?? text(payload, 'after')
  return {
    ...optional('branch', branchOfRef(ref)),
    ...optional('commit', hash(env['GITHUB_SHA']) ?? hash(pushed)),
  }
}

/** The commit of its tag, unless there is no release any more. */
function ofRelease(run: Run): Code {
  const action = text(run.payload, 'action') ?? ''
  if (!['deleted', 'unpublished'].includes(action)) return ofRef(run)
  const release = ['The release', text(run.payload, 'release', 'tag_name')].filter(Boolean).join(' ')
  return { skip: `${release} was ${action}: there is nothing to deploy.` }
}

function ofPullRequest({ payload, repository }: Run): Code {
  const number = at(payload, 'pull_request', 'number') ?? at(payload, 'number')
  return {
    ...optional('branch', text(payload, 'pull_request', 'head', 'ref')),
    ...optional('commit', hash(text(payload, 'pull_request', 'head', 'sha'))),
    ...(typeof number === 'number'
      ? { pullRequest: { number, closed: at(payload, 'action') === 'closed' } }
      : { unknownPullRequest: true as const }),
    ...forkOf(at(payload, 'pull_request', 'head'), 'repo', repository),
  }
}

function ofWorkflowRun({ payload, repository }: Run): Code {
  const run = at(payload, 'workflow_run')
  const conclusion = at(run, 'conclusion')
  const ended = typeof conclusion === 'string' && conclusion !== 'success' ? conclusion : undefined
  const number = at(run, 'pull_requests', '0', 'number')
  const requested = /^pull_request/.test(text(run, 'event') ?? '')
  return {
    ...optional('branch', text(run, 'head_branch')),
    ...optional('commit', hash(text(run, 'head_sha'))),
    ...(requested && typeof number === 'number' ? { pullRequest: { number, closed: false } } : {}),
    ...(requested && typeof number !== 'number' ? { unknownPullRequest: true as const } : {}),
    ...forkOf(run, 'head_repository', repository),
    ...optional('skip', ended && `The workflow that this run follows has ended with ${JSON.stringify(ended)}.`),
  }
}

function deleted(ref: string | undefined): Code {
  return {
    skip: `${ref?.replace(/^refs\/(heads|tags)\//, '') || 'The branch'} was deleted: there is nothing to deploy.`,
  }
}

/** A fork that was deleted has no name any more; code whose repository is not told may be anybody's, too. */
function forkOf(code: unknown, key: string, repository: Repository | undefined): { readonly fork?: string } {
  if (code === undefined) return {}
  const name = text(code, key, 'full_name')
  if (name === undefined) return { fork: at(code, key) === null ? 'a deleted repository' : 'an unknown repository' }
  return name.toLowerCase() === repository?.fullName.toLowerCase() ? {} : { fork: name }
}

function repositoryOf(env: Environment): Repository | undefined {
  const server = env['GITHUB_SERVER_URL']?.replace(/\/+$/, '')
  const fullName = env['GITHUB_REPOSITORY']
  const name = fullName?.split('/')[1]
  if (!server || !fullName || !name) return undefined
  return { fullName, name, gitUrl: `${server}/${fullName}.git` }
}

function branchOfRef(ref: string | undefined): string | undefined {
  return /^refs\/heads\/(.+)$/.exec(ref ?? '')?.[1]
}

/** A full commit hash that stands for something: zeros stand for nothing. */
function hash(value: string | undefined): string | undefined {
  return value !== undefined && /^([0-9a-f]{40}|[0-9a-f]{64})$/i.test(value) && !/^0+$/.test(value)
    ? value.toLowerCase()
    : undefined
}

/** What stands at a path of a JSON value of unknown shape. */
function at(value: unknown, ...path: readonly string[]): unknown {
  let found = value
  for (const key of path) {
    if (typeof found !== 'object' || found === null || !Object.hasOwn(found, key)) return undefined
    found = (found as Record<string, unknown>)[key]
  }
  return found
}

function text(value: unknown, ...path: readonly string[]): string | undefined {
  const found = at(value, ...path)
  return typeof found === 'string' && found !== '' ? found : undefined
}

function optional<Name extends string, T>(name: Name, value: T | undefined | ''): { readonly [N in Name]?: T } {
  return (value === undefined || value === '' ? {} : { [name]: value }) as { readonly [N in Name]?: T }
}
