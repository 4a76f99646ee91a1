import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { readEvent } from '../../../action/src/event.ts'
import { isExposedInTransit } from '../../../action/src/http.ts'
import { type InputName, inputDefaults, readInputs } from '../../../action/src/inputs/inputs.ts'
import { reasonToSkip } from '../../../action/src/skip.ts'
import { HEAD, mergeGroup, pullRequest, pullRequestEnvironment, workflowRun } from '../../harness/action/payloads.ts'
import { KEY, PROJECT } from '../../harness/action/support.ts'
import { pushEnvironment } from '../../harness/run-action.ts'

type Given = Partial<Record<InputName, string>>
type Env = Readonly<Record<string, string>>

const complete: Given = { 'api-url': 'https://fairlead.example.com', 'api-key': KEY, 'project-id': PROJECT }

function read(given: Given, env: Env = pushEnvironment, payload: unknown = {}) {
  return readInputs((name) => given[name] ?? '', readEvent(env, payload))
}

function inputs(given: Given = {}, env?: Env, payload?: unknown) {
  const result = read({ ...complete, ...given }, env, payload)
  if ('problems' in result) throw new Error(JSON.stringify(result.problems))
  return result.inputs
}

/** Returns the names of the invalid inputs, and all messages in one text. */
function invalid(given: Given, env?: Env, payload?: unknown) {
  const result = read({ ...complete, ...given }, env, payload)
  const problems = 'problems' in result ? result.problems : []
  return { names: problems.map(({ input }) => input), text: problems.map(({ message }) => message).join('\n') }
}

const onPullRequest = { ...pushEnvironment, ...pullRequestEnvironment }
const onWorkflowRun = { ...pushEnvironment, GITHUB_EVENT_NAME: 'workflow_run' }

test('defaults come from the workflow', () => {
  expect(inputs()).toEqual({
    apiUrl: 'https://fairlead.example.com',
    apiKey: KEY,
    projectId: PROJECT,
    name: 'shop',
    preview: false,
    branch: 'main',
    commit: pushEnvironment.GITHUB_SHA,
    gitUrl: 'https://github.com/acme/shop.git',
    fromDeployment: '',
    image: '',
    volumes: {},
    gitToken: '',
    root: '',
    variables: {},
    wait: true,
    timeoutSeconds: 600,
    environment: '',
    comment: true,
    githubToken: '',
    dryRun: false,
  })
})

describe('the code', () => {
  const commit = pushEnvironment.GITHUB_SHA
  const other = 'd'.repeat(40)
  test.each<[string, Given, { branch: string; commit: string }]>([
    ['a given branch is deployed at its tip', { branch: 'next' }, { branch: 'next', commit: '' }],
    ['the branch of the event keeps its commit', { branch: 'main' }, { branch: 'main', commit }],
    ['a given commit needs no branch', { commit: other }, { branch: '', commit: other }],
    [
      'a branch and a commit go together',
      { branch: 'next', commit: other.toUpperCase() },
      { branch: 'next', commit: other },
    ],
    ['the same repository by ssh', { 'git-url': 'git@github.com:acme/Shop' }, { branch: 'main', commit }],
    ['the same repository by ssh://', { 'git-url': 'ssh://git@github.com/acme/shop.git' }, { branch: 'main', commit }],
    ['another repository', { 'git-url': 'https://github.com/a/b.git', branch: 'main' }, { branch: 'main', commit: '' }],
  ])('%s', (_, given, expected) => {
    expect(inputs(given)).toMatchObject(expected)
  })

  test('of another repository is its default branch', () => {
    const gitUrl = 'https://github.com/a/b.git'
    expect(inputs({ 'git-url': gitUrl })).toMatchObject({ gitUrl, branch: '', commit: '' })
  })

  test('of a run without a branch must be named', () => {
    const env = { ...pushEnvironment, GITHUB_REF: 'refs/pull/1/merge', GITHUB_SHA: '' }
    expect(invalid({}, env)).toEqual({ names: ['branch'], text: expect.stringContaining('names no branch') })
  })

  test('of a tag is its commit', () => {
    const env = { ...pushEnvironment, GITHUB_REF: 'refs/tags/v1', GITHUB_REF_NAME: 'v1', GITHUB_REF_TYPE: 'tag' }
    expect(inputs({}, env)).toMatchObject({ branch: '', commit })
  })

  test('of a fork is refused where there are secrets, unless that is allowed as unsafe', () => {
    const payload = pullRequest('opened', 'fork')
    for (const GITHUB_EVENT_NAME of ['pull_request', 'pull_request_target']) {
      const env = { ...onPullRequest, GITHUB_EVENT_NAME }
      const found = invalid({}, env, payload)
      expect(found).toEqual({ names: ['allow-unsafe-fork-code'], text: expect.stringContaining('mallory/shop') })
      expect(inputs({ 'allow-unsafe-fork-code': 'true' }, env, payload)).toMatchObject({
        gitUrl: 'https://github.com/mallory/shop.git',
        commit: HEAD,
      })
    }
    const run = workflowRun({ event: 'pull_request', from: 'fork' })
    expect(invalid({}, onWorkflowRun, run).names).toEqual(['preview', 'allow-unsafe-fork-code'])
  })
})

describe('the app of a pull request', () => {
  test('has its number', () => {
    expect(inputs({}, onPullRequest, pullRequest('opened'))).toMatchObject({ name: 'shop-pr-12', preview: true })
    expect(inputs({ name: 'web' }, onPullRequest, pullRequest('closed'))).toMatchObject({ name: 'web-pr-12' })
    const run = workflowRun({ event: 'pull_request', numbers: [12] })
    expect(inputs({}, onWorkflowRun, run)).toMatchObject({ name: 'shop-pr-12' })
  })

  test('is an ordinary app without preview', () => {
    const given = { name: 'web', preview: 'false' }
    expect(inputs(given, onPullRequest, pullRequest('opened'))).toMatchObject({ name: 'web', preview: false })
  })

  test('does not replace another app when its number is unknown', () => {
    expect(invalid({}, onWorkflowRun, workflowRun({ event: 'pull_request' })).names).toEqual(['preview'])
  })

  test('of a fork, deleted or not, is removed without being read', () => {
    expect(inputs({}, onPullRequest, pullRequest('closed', 'fork')).name).toBe('shop-pr-12')
    expect(inputs({}, onPullRequest, pullRequest('closed', 'nowhere')).name).toBe('shop-pr-12')
  })
})

describe('a run has nothing to do', () => {
  const skip = (given: Given, env: Env, payload: unknown, actor?: string) =>
    reasonToSkip(readEvent(env, payload), (name) => given[name] ?? '', actor)
  const onMergeGroup = { ...pushEnvironment, GITHUB_EVENT_NAME: 'merge_group' }

  test('for a merge group, unless that is enabled', () => {
    expect(skip(complete, onMergeGroup, mergeGroup)).toMatch(/merge group/)
    expect(skip({ ...complete, 'merge-group': 'true' }, onMergeGroup, mergeGroup)).toBeUndefined()
  })

  test('for a fork or Dependabot without secrets', () => {
    expect(skip({}, onPullRequest, pullRequest('opened', 'fork'))).toMatch(/mallory\/shop.*no secrets/)
    expect(skip({}, onPullRequest, pullRequest('opened'), 'dependabot[bot]')).toMatch(/Dependabot/)
    expect(skip({}, onPullRequest, pullRequest('opened'), 'octocat')).toBeUndefined()
    expect(skip(complete, onPullRequest, pullRequest('opened', 'fork'))).toBeUndefined()
  })

  test('for a closed pull request without a preview app', () => {
    expect(skip({ ...complete, preview: 'false' }, onPullRequest, pullRequest('closed'))).toMatch(/closed/)
    expect(skip(complete, onPullRequest, pullRequest('closed'))).toBeUndefined()
  })
})

test.each([
  ['http://fairlead.example.com', true],
  ['http://93.184.216.34:3000', true],
  ['http://[2606:2800::1]', true],
  ['http://172.32.0.1', true],
  ['https://fairlead.example.com', false],
  ['http://localhost:3000', false],
  ['http://fairlead', false],
  ['http://fairlead.internal', false],
  ['http://127.0.0.1', false],
  ['http://10.1.2.3', false],
  ['http://172.31.0.1', false],
  ['http://192.168.1.1', false],
  ['http://100.64.0.1', false],
  ['http://[::1]:3000', false],
  ['http://[fd00::1]', false],
])('%s is exposed in transit: %j', (address, exposed) => {
  expect(isExposedInTransit(address)).toBe(exposed)
})

test('inputs take precedence over the defaults', () => {
  const given = { name: 'My shop', branch: 'next', 'git-url': 'git@example.com:a/b.git', wait: 'False', timeout: '5' }
  expect(inputs({ ...given, 'env-vars': 'A=1' })).toMatchObject({
    name: 'My shop',
    branch: 'next',
    gitUrl: 'git@example.com:a/b.git',
    variables: { A: '1' },
    wait: false,
    timeoutSeconds: 5,
  })
})

test("a full ref of a branch becomes the branch's name", () => {
  expect(inputs({ branch: 'refs/heads/next' }).branch).toBe('next')
})

describe('api-url', () => {
  test.each([
    ['https://a.example.com/', 'https://a.example.com'],
    ['https://a.example.com/v1', 'https://a.example.com'],
    ['https://a.example.com/v1///', 'https://a.example.com'],
    ['http://127.0.0.1:3000', 'http://127.0.0.1:3000'],
    ['HTTPS://A.example.com', 'https://a.example.com'],
    ['https://example.com/fairlead/v1', 'https://example.com/fairlead'],
  ])('%s is read as %s', (given, apiUrl) => {
    expect(inputs({ 'api-url': given }).apiUrl).toBe(apiUrl)
  })

  test.each([
    'a.example.com',
    'localhost:3000',
    'ftp://a.example.com',
    'file:///etc/passwd',
    'https://',
    'https://user:secret@a.example.com',
    'https://a.example.com?key=secret',
    'https://a.example.com/#secret',
  ])('%s is refused', (given) => {
    expect(invalid({ 'api-url': given })).toEqual({ names: ['api-url'], text: expect.not.stringContaining('secret') })
  })
})

test.each<[InputName, string]>([
  ['api-key', 'fl_secret\nfl_secret'],
  ['api-key', 'fl_secré'],
  ['git-token', 'secr et'],
  ['commit', 'abc'],
  ['project-id', 'shop'],
  ['project-id', '../projects'],
  ['git-url', 'https://user:secret@example.com/a.git'],
  ['git-url', 'https://secret@example.com/a.git'],
  ['git-url', 'ssh://git:secret@example.com/a.git'],
  ['branch', 'refs/tags/v1'],
  ['branch', 'refs/pull/7/merge'],
  ['wait', 'yes'],
  ['wait', 'constructor'],
  ['preview', 'no'],
  ['comment', '1'],
  ['dry-run', 'x'],
  ['merge-group', 'x'],
  ['allow-unsafe-fork-code', 'x'],
  ['timeout', '0'],
  ['timeout', '-1'],
  ['timeout', '1.5'],
  ['timeout', '10m'],
  ['timeout', '86401'],
  ['env-vars', 'A'],
])('%s refuses %j and does not repeat secrets', (input, given) => {
  expect(invalid({ [input]: given })).toEqual({ names: [input], text: expect.not.stringContaining('secr') })
})

describe('without a key', () => {
  const may = {
    ...pushEnvironment,
    ACTIONS_ID_TOKEN_REQUEST_URL: 'https://example.com/?a=b',
    ACTIONS_ID_TOKEN_REQUEST_TOKEN: 'x',
  }

  test('names both ways to get a key', () => {
    const { names, text } = invalid({ 'api-key': '' })
    expect(names).toEqual(['api-key'])
    expect(text).toContain('`id-token: write`')
    expect(text).toContain('secrets.FAIRLEAD_API_KEY')
  })

  test('accepts a job that may ask for tokens', () => {
    expect(inputs({ 'api-key': '' }, may)).toMatchObject({ apiKey: '' })
  })

  test('refuses the code of a fork, instead of skipping it, when the job may ask for tokens', () => {
    const env = { ...may, ...pullRequestEnvironment, GITHUB_EVENT_NAME: 'pull_request_target' }
    const payload = pullRequest('opened', 'fork')
    expect(reasonToSkip(readEvent(env, payload), () => '', undefined)).toBeUndefined()
    expect(invalid({ 'api-key': '' }, env, payload).names).toEqual(['allow-unsafe-fork-code'])
  })
})

test('a deployment to copy replaces the commit of the event, and conflicts with other given sources', () => {
  expect(inputs({ 'from-deployment': 'dep_1' })).toMatchObject({ fromDeployment: 'dep_1', branch: '', commit: '' })
  expect(invalid({ 'from-deployment': 'main' }).names).toEqual(['from-deployment'])
  for (const [name, value] of [
    ['branch', 'main'],
    ['commit', 'a'.repeat(40)],
    ['root', 'a'],
    ['git-token', 'x'],
  ]) {
    expect(invalid({ 'from-deployment': 'dep_1', [String(name)]: String(value) }).names).toEqual(['from-deployment'])
  }
})

test('volumes of an image are lines of a name and a path, and a line in another format is named', () => {
  const image = 'registry.example/shop:1'
  const volumes = 'data = /data\n\n  uploads=/var/lib/uploads=1\n'
  expect(inputs({ image, volumes }).volumes).toEqual({ data: '/data', uploads: '/var/lib/uploads=1' })
  expect(invalid({ image, volumes: 'data=/data\ndata /x' }).text).toContain('have the line "data /x"')
  expect(invalid({ volumes: 'data=/data' }).text).toContain('fairlead.json names the volumes')
})

test('an image replaces the commit of the event, and conflicts with other given sources', () => {
  const image = 'registry.example/shop:1'
  expect(inputs({ image })).toMatchObject({ image, branch: '', commit: '' })
  expect(invalid({ image, branch: 'main' }).names).toEqual(['image'])
  expect(invalid({ image, 'from-deployment': 'dep_1' }).names).toEqual(['from-deployment'])
})

test('all errors are reported at once', () => {
  const given: Given = {
    'api-url': '',
    'api-key': '',
    'project-id': '',
    'env-vars': 'x\ny',
    wait: 'no',
    timeout: 'long',
  }
  expect(invalid(given, {}).names).toEqual([
    'api-url',
    'api-key',
    'project-id',
    'name',
    'git-url',
    'env-vars',
    'env-vars',
    'wait',
    'timeout',
  ])
})

test('action.yml declares exactly the inputs that are read, with the same defaults', () => {
  const declared = parse(readFileSync(new URL('../../../action.yml', import.meta.url), 'utf8')) as {
    inputs: Record<string, { default?: string }>
  }
  const defaults = Object.entries(declared.inputs).map(([name, input]) => [name, input.default ?? ''])
  expect(Object.fromEntries(defaults)).toEqual({ ...inputDefaults, 'github-token': `\${{ github.token }}` })
})
