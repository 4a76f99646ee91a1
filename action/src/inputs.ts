import { parseVariables, type Variables } from './env-vars.ts'
import type { WorkflowEvent } from './event.ts'
import {
  missing,
  type Read,
  readApiKey,
  readApiUrl,
  readBoolean,
  readBranch,
  readCommit,
  readGitUrl,
  readProjectId,
  readText,
  readTimeout,
  readToken,
} from './input-values.ts'

/** Every input with the default that action.yml gives it; an empty one depends on the workflow. */
export const inputDefaults = {
  'api-url': '',
  'api-key': '',
  'project-id': '',
  name: '',
  preview: 'true',
  branch: '',
  commit: '',
  'git-url': '',
  'git-token': '',
  'env-vars': '',
  wait: 'true',
  timeout: '600',
  environment: '',
  comment: 'true',
  // The runner fills it in.
  'github-token': '',
  'merge-group': 'false',
  'allow-unsafe-fork-code': 'false',
  'dry-run': 'false',
} as const
export type InputName = keyof typeof inputDefaults

/** Gives the trimmed text of an input, empty when it was not given: the runner checks nothing, not even `required`. */
export type InputReader = (name: InputName) => string

/** What it takes to speak to the server about the project. */
export interface Access {
  /** The server's address without `/v1`, for messages. */
  readonly apiUrl: string
  readonly apiKey: string
  readonly projectId: string
}

export interface Inputs extends Access {
  /** The app's name, with the number of a pull request if it is a preview. */
  readonly name: string
  /** Whether the app is one of a pull request. */
  readonly preview: boolean
  /** Empty where only a commit is known. */
  readonly branch: string
  /** The commit that is meant; empty where only a branch is known. */
  readonly commit: string
  readonly gitUrl: string
  /** Empty without. */
  readonly gitToken: string
  readonly variables: Variables
  readonly wait: boolean
  readonly timeoutSeconds: number
  /** The environment at GitHub; empty without. */
  readonly environment: string
  readonly comment: boolean
  readonly githubToken: string
  readonly dryRun: boolean
}

/** One thing that is wrong with the inputs, and what to do. It never holds the value of a secret. */
export interface InputProblem {
  readonly input: InputName
  readonly message: string
}

type Checked<T> = { readonly inputs: T } | { readonly problems: readonly InputProblem[] }

/** Reads all inputs and fills in what the event gives. Reports everything that is wrong. */
export function readInputs(input: InputReader, event: WorkflowEvent): Checked<Inputs> {
  const { take, given, problems } = taking(input)
  const { repository, pullRequest } = event
  // Its app is removed, and no code is needed for that.
  const closed = pullRequest?.closed === true
  const base = take('name', readText(input('name') || repository?.name))
  const preview = take('preview', readPreview(given('preview'), event)) === true && pullRequest !== undefined
  const ownBranch = take('branch', readBranch(input('branch')))
  const ownCommit = take('commit', readCommit(input('commit')))
  const gitUrl = take('git-url', readGitUrl(input('git-url') || event.gitUrl || (closed ? repository?.gitUrl : '')))
  // The event's branch and commit are those of the event's repository, and its commit that of its branch.
  const same = gitUrl !== undefined && event.gitUrl !== undefined && isSameRepository(gitUrl, event.gitUrl)
  const branch = ownBranch || (same && !ownCommit ? event.branch : undefined) || ''
  const commit = ownCommit || (same && branch === (event.branch ?? '') ? event.commit : undefined) || ''
  if (ownBranch === '' && ownCommit === '' && branch === '' && commit === '' && gitUrl !== undefined && !closed) {
    const why = same ? 'this run names no branch' : '`git-url` is another repository than that of the workflow'
    problems.push({ input: 'branch', message: `${missing}, and ${why}. Set it to the branch to deploy.` })
  }
  const inputs = {
    ...readAccess(take, input),
    name: preview ? `${base}-pr-${pullRequest.number}` : base,
    preview,
    branch,
    commit,
    gitUrl,
    gitToken: take('git-token', readToken(input('git-token'))),
    variables: take('env-vars', parseVariables(input('env-vars'))),
    wait: take('wait', readBoolean(given('wait'))),
    timeoutSeconds: take('timeout', readTimeout(given('timeout'))),
    environment: input('environment'),
    comment: take('comment', readBoolean(given('comment'))),
    githubToken: take('github-token', readToken(input('github-token'))),
    dryRun: take('dry-run', readBoolean(given('dry-run'))),
  }
  take('merge-group', readBoolean(given('merge-group')))
  take('allow-unsafe-fork-code', readFork(given('allow-unsafe-fork-code'), event))
  // Whatever is not there has left a problem behind.
  return problems.length > 0 ? { problems: inOrder(problems) } : { inputs: inputs as Inputs }
}

/** Reads only what it takes to speak to the server. */
export function readAccessInputs(input: InputReader): Checked<Access> {
  const { take, problems } = taking(input)
  const access = readAccess(take, input)
  return problems.length > 0 ? { problems } : { inputs: access as Access }
}

type Take = <T>(name: InputName, read: Read<T>) => T | undefined

function readAccess(take: Take, input: InputReader) {
  return {
    apiUrl: take('api-url', readApiUrl(input('api-url'))),
    apiKey: take('api-key', readApiKey(input('api-key'))),
    projectId: take('project-id', readProjectId(input('project-id'))),
  }
}

function taking(input: InputReader) {
  const problems: InputProblem[] = []
  const take: Take = (name, read) => {
    if ('value' in read) return read.value
    const messages = 'problem' in read ? [read.problem] : read.problems
    problems.push(...messages.map((message) => ({ input: name, message })))
    return undefined
  }
  return { take, problems, given: (name: InputName) => input(name) || inputDefaults[name] }
}

function inOrder(problems: readonly InputProblem[]): readonly InputProblem[] {
  const names = Object.keys(inputDefaults)
  return problems.toSorted((a, b) => names.indexOf(a.input) - names.indexOf(b.input))
}

function readPreview(text: string, event: WorkflowEvent): Read<boolean> {
  const read = readBoolean(text)
  if (!('value' in read) || !read.value || event.unknownPullRequest === undefined) return read
  return {
    problem:
      "cannot name the app: the code is a pull request's, and the event does not tell its number. " +
      'Set it to false and `name` to a name of its own, or the code replaces an app that others use.',
  }
}

function readFork(text: string, event: WorkflowEvent): Read<boolean> {
  const read = readBoolean(text)
  if (!('value' in read) || read.value || event.fork === undefined || event.pullRequest?.closed) return read
  return {
    problem:
      `is false, and the code comes from ${event.fork}, where anybody may have written it. It would run with the ` +
      "app's variables. Set it to true only for code that somebody has read before.",
  }
}

/** Whether two addresses name one repository, whatever the protocol: https, ssh and git@host:owner/name. */
function isSameRepository(one: string, other: string): boolean {
  return repositoryPlace(one) === repositoryPlace(other)
}

function repositoryPlace(address: string): string {
  const scp = /^(?:[^/@]+@)?([^/:]+):(?!\/\/)(.*)$/.exec(address)
  const url = scp === null && URL.canParse(address) ? new URL(address) : undefined
  const [host = '', path = address] = scp ? scp.slice(1) : url ? [url.hostname || url.host, url.pathname] : []
  return `${host}/${path.replace(/^\/+|\/+$/g, '').replace(/\.git$/i, '')}`.toLowerCase()
}
