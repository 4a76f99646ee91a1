import type { WorkflowEvent } from '../event.ts'
import { parseVariables, type Variables } from './env-vars.ts'
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

/** All inputs with their defaults in action.yml. For an empty default, the value depends on the workflow. */
export const inputDefaults = {
  'api-url': '',
  'api-key': '',
  'project-id': '',
  name: '',
  preview: 'true',
  branch: '',
  commit: '',
  'git-url': '',
  'from-deployment': '',
  image: '',
  volumes: '',
  root: '',
  'git-token': '',
  'env-vars': '',
  wait: 'true',
  timeout: '600',
  environment: '',
  comment: 'true',
  // Set by the runner.
  'github-token': '',
  'merge-group': 'false',
  'allow-unsafe-fork-code': 'false',
  'dry-run': 'false',
} as const
export type InputName = keyof typeof inputDefaults

/** Returns the trimmed text of an input, empty when not given. The runner validates nothing, not even `required`. */
export type InputReader = (name: InputName) => string

/** The access to the server and the project. */
export interface Access {
  /** The server's address without `/v1`. */
  readonly apiUrl: string
  /** Empty when a token of the job is to be exchanged for one. */
  readonly apiKey: string
  readonly projectId: string
}

export interface Inputs extends Access {
  /** The app's name; for a preview, with the number of the pull request. */
  readonly name: string
  /** True when the app belongs to a pull request. */
  readonly preview: boolean
  /** Empty when only a commit is known, and together with `commit` for the default branch. */
  readonly branch: string
  /** The commit to deploy; empty when only a branch is known. */
  readonly commit: string
  readonly gitUrl: string
  /** The deployment whose release is deployed in place of a commit; empty when not given. */
  readonly fromDeployment: string
  /** The container image that is deployed in place of a commit; empty when not given. */
  readonly image: string
  /** The paths of the image's volumes by their names; empty when not given. */
  readonly volumes: Readonly<Record<string, string>>
  /** The folder of the app in the repository; empty when not given. */
  readonly root: string
  /** Empty when not given. */
  readonly gitToken: string
  readonly variables: Variables
  readonly wait: boolean
  readonly timeoutSeconds: number
  /** The environment at GitHub; empty when not given. */
  readonly environment: string
  readonly comment: boolean
  readonly githubToken: string
  readonly dryRun: boolean
}

/** A problem with an input and its remedy. The message never contains the value of a secret. */
export interface InputProblem {
  readonly input: InputName
  readonly message: string
}

type Checked<T> = { readonly inputs: T } | { readonly problems: readonly InputProblem[] }

/** Reads all inputs and completes them from the event, or returns all problems. */
export function readInputs(input: InputReader, event: WorkflowEvent): Checked<Inputs> {
  const { check, given, problems } = createChecker(input)
  const { repository, pullRequest } = event
  // Removing the app of a closed pull request needs no code.
  const closed = pullRequest?.closed === true
  const base = check('name', readText(input('name') || repository?.name))
  const preview = check('preview', readPreview(given('preview'), event)) === true && pullRequest !== undefined
  const ownBranch = check('branch', readBranch(input('branch')))
  const ownCommit = check('commit', readCommit(input('commit')))
  const fromDeployment = check('from-deployment', readFromDeployment(input))
  const image = check('image', readImage(input))
  const gitUrl = check('git-url', readGitUrl(input('git-url') || event.gitUrl || (closed ? repository?.gitUrl : '')))
  // The event's branch and commit are valid only for the event's repository, and its commit only for its branch.
  const same = gitUrl !== undefined && event.gitUrl !== undefined && isSameRepository(gitUrl, event.gitUrl)
  const isOfEvent = same && fromDeployment === '' && image === ''
  const branch = ownBranch || (isOfEvent && !ownCommit ? event.branch : undefined) || ''
  const commit = ownCommit || (isOfEvent && branch === (event.branch ?? '') ? event.commit : undefined) || ''
  // Another repository without a branch means its default branch.
  if (ownBranch === '' && ownCommit === '' && branch === '' && commit === '' && isOfEvent && !closed) {
    problems.push({
      input: 'branch',
      message: `${missing}, and this run names no branch. Set it to the branch to deploy.`,
    })
  }
  const inputs = {
    ...readAccess(check, input, event),
    name: preview ? `${base}-pr-${pullRequest.number}` : base,
    preview,
    branch,
    commit,
    gitUrl,
    fromDeployment,
    image,
    volumes: check('volumes', readVolumes(input)),
    root: input('root'),
    gitToken: check('git-token', readToken(input('git-token'))),
    variables: check('env-vars', parseVariables(input('env-vars'))),
    wait: check('wait', readBoolean(given('wait'))),
    timeoutSeconds: check('timeout', readTimeout(given('timeout'))),
    environment: input('environment'),
    comment: check('comment', readBoolean(given('comment'))),
    githubToken: check('github-token', readToken(input('github-token'))),
    dryRun: check('dry-run', readBoolean(given('dry-run'))),
  }
  check('merge-group', readBoolean(given('merge-group')))
  check('allow-unsafe-fork-code', readFork(given('allow-unsafe-fork-code'), event))
  // Complete, because every value that is missing has added a problem.
  return problems.length > 0 ? { problems: inOrder(problems) } : { inputs: inputs as Inputs }
}

/** Reads only the inputs for the access to the server. */
export function readAccessInputs(input: InputReader, event: WorkflowEvent): Checked<Access> {
  const { check, problems } = createChecker(input)
  const access = readAccess(check, input, event)
  return problems.length > 0 ? { problems } : { inputs: access as Access }
}

/** Returns the value, or `undefined` after adding its problems to the list. */
type Check = <T>(name: InputName, read: Read<T>) => T | undefined

function readAccess(check: Check, input: InputReader, { mayAskForTokens }: WorkflowEvent) {
  return {
    apiUrl: check('api-url', readApiUrl(input('api-url'))),
    apiKey: check('api-key', readApiKey(input('api-key'), mayAskForTokens === true)),
    projectId: check('project-id', readProjectId(input('project-id'))),
  }
}

function createChecker(input: InputReader) {
  const problems: InputProblem[] = []
  const check: Check = (name, read) => {
    if ('value' in read) return read.value
    const messages = 'problem' in read ? [read.problem] : read.problems
    problems.push(...messages.map((message) => ({ input: name, message })))
    return undefined
  }
  return { check, problems, given: (name: InputName) => input(name) || inputDefaults[name] }
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

/** Reads the deployment to copy, which has its own source. */
function readFromDeployment(input: InputReader): Read<string> {
  const id = input('from-deployment')
  if (id === '') return { value: id }
  if (!/^dep_\w+$/.test(id)) return { problem: 'is not the id of a deployment. Set it to one that begins with dep_.' }
  return withoutOtherSource(input, id, [...sourceInputs, 'image'])
}

/** Reads the image to deploy, which has its own source. The server knows what a reference is. */
const readImage = (input: InputReader): Read<string> =>
  input('image') === '' ? { value: '' } : withoutOtherSource(input, input('image'), sourceInputs)

/** Reads lines of `NAME=/PATH`. The server knows the rules for names and paths. */
function readVolumes(input: InputReader): Read<Readonly<Record<string, string>>> {
  const lines = input('volumes')
    .split('\n')
    .map((line) => line.trim())
  const given = lines.filter((line) => line !== '')
  if (given.length > 0 && input('image') === '') {
    return { problem: 'are for `image`. In a repository, fairlead.json names the volumes.' }
  }
  const pairs = given.map((line) => /^([^=\s]+)\s*=\s*(\/.*)$/.exec(line))
  const wrong = pairs.indexOf(null)
  if (wrong !== -1) {
    return { problem: `have the line "${given[wrong]}". Write a name and a path, such as uploads=/var/lib/uploads.` }
  }
  return { value: Object.fromEntries(pairs.flatMap((pair) => (pair === null ? [] : [[pair[1], pair[2]]]))) }
}

const sourceInputs = ['branch', 'commit', 'git-url', 'root', 'git-token'] as const

function withoutOtherSource(input: InputReader, value: string, others: readonly InputName[]): Read<string> {
  const other = others.find((name) => input(name) !== '')
  return other === undefined ? { value } : { problem: `has its own source. Leave \`${other}\` out.` }
}

function readFork(text: string, event: WorkflowEvent): Read<boolean> {
  const read = readBoolean(text)
  if (!('value' in read) || read.value || event.fork === undefined || event.pullRequest?.closed) return read
  return {
    problem:
      `is false, and the code comes from ${event.fork}, where anybody may have written it. It would run with the ` +
      "app's variables. Set it to true only for code that somebody has reviewed.",
  }
}

/** True when two addresses name the same repository in whatever form: https, ssh or git@host:owner/name. */
function isSameRepository(one: string, other: string): boolean {
  return hostAndPath(one) === hostAndPath(other)
}

function hostAndPath(address: string): string {
  const scp = /^(?:[^/@]+@)?([^/:]+):(?!\/\/)(.*)$/.exec(address)
  const url = scp === null && URL.canParse(address) ? new URL(address) : undefined
  const [host = '', path = address] = scp ? scp.slice(1) : url ? [url.hostname || url.host, url.pathname] : []
  return `${host}/${path.replace(/^\/+|\/+$/g, '').replace(/\.git$/i, '')}`.toLowerCase()
}
