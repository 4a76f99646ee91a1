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

/** The code of a workflow run, and whether to deploy it. */
export interface WorkflowEvent {
  /** Such as `push`. */
  readonly name: string
  /** The repository of the workflow; absent outside of a workflow. */
  readonly repository?: Repository
  /** The address from which the code is fetched. For a fork, it differs from the repository's address. */
  readonly gitUrl?: string
  /** Absent for a tag, a release and a bare commit. */
  readonly branch?: string
  /** The full hash of the commit. */
  readonly commit?: string
  readonly pullRequest?: { readonly number: number; readonly closed: boolean }
  /** Set when the code belongs to a pull request whose number is not in the event. */
  readonly unknownPullRequest?: true
  /** The full name of the code's fork. */
  readonly fork?: string
  /** The reason why there is nothing to deploy. */
  readonly skip?: string
  /** Set for the commit of a merge queue, which is not merged yet. */
  readonly mergeGroup?: true
  /** A warning: the author of the workflow may expect other code from this event. */
  readonly caution?: string
  /** Set when the job may ask GitHub for tokens about itself: it has the permission `id-token: write`. */
  readonly mayAskForTokens?: true
}

type Code = Omit<WorkflowEvent, 'name' | 'repository' | 'gitUrl' | 'mayAskForTokens'>

/** The input of the rules below. */
interface Run {
  readonly env: Environment
  readonly payload: unknown
  readonly repository: Repository | undefined
}

/**
 * Event name → rule that finds the code. GITHUB_SHA and GITHUB_REF are right for events about a ref. For events about a
 * pull request they name a merge commit that exists only at GitHub, and for `workflow_run` the default branch.
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
    caution:
      'A merge group is not merged yet, and this run deploys it. Set a `name` that no other workflow deploys, or it replaces that app.',
  }),
  issue_comment: (run) => ({
    ...ofRef(run),
    ...(at(run.payload, 'issue', 'pull_request') === undefined
      ? {}
      : {
          caution:
            "A comment runs on the default branch: this run deploys that, and not the pull request. For the pull request's code, use `pull_request`.",
        }),
  }),
}

/** Reads the event from the runner's environment. `payload` is the parsed file of GITHUB_EVENT_PATH. */
export function readEvent(env: Environment, payload: unknown): WorkflowEvent {
  const name = env['GITHUB_EVENT_NAME'] ?? ''
  const repository = repositoryOf(env)
  const rule = Object.hasOwn(rules, name) ? rules[name] : undefined
  const code = (rule ?? ofRef)({ env, payload, repository })
  const source = code.fork === undefined ? repository : repositoryOf({ ...env, GITHUB_REPOSITORY: code.fork })
  const mayAskForTokens =
    env['ACTIONS_ID_TOKEN_REQUEST_URL'] && env['ACTIONS_ID_TOKEN_REQUEST_TOKEN'] ? true : undefined
  return {
    name,
    ...optional('repository', repository),
    ...optional('gitUrl', source?.gitUrl),
    ...optional('mayAskForTokens', mayAskForTokens),
    ...code,
  }
}

/** For pushes, tags, `workflow_dispatch`, `schedule` and all other events that run on a ref. */
function ofRef({ env, payload }: Run): Code {
  const ref = env['GITHUB_REF'] ?? ''
  // For an annotated tag, `after` is the tag object, and the head commit is its commit.
  const pushed = text(payload, 'head_commit', 'id') ?? text(payload, 'after')
  return {
    ...optional('branch', branchOfRef(ref)),
    ...optional('commit', hash(env['GITHUB_SHA']) ?? hash(pushed)),
  }
}

/** Returns the commit of the release's tag, or nothing to deploy when the release was removed. */
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

/** Code of a deleted fork or of an unknown repository counts as fork code, because anybody may have written it. */
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

/** Returns a full commit hash in lower case; `undefined` for anything else and for zeros, which mean no commit. */
function hash(value: string | undefined): string | undefined {
  return value !== undefined && /^([0-9a-f]{40}|[0-9a-f]{64})$/i.test(value) && !/^0+$/.test(value)
    ? value.toLowerCase()
    : undefined
}

/** Returns the value at a path of a JSON value of unknown shape. */
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
