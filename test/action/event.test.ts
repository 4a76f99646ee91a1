import { expect, test } from 'vitest'
import { readEvent, type WorkflowEvent } from '../../action/src/event.ts'
import { pushEnvironment } from '../harness/run-action.ts'
import * as payloads from './payloads.ts'

const { HEAD, MERGE } = payloads

type Expected = Omit<WorkflowEvent, 'name' | 'repository'>
const own = 'https://github.com/acme/shop.git'
const forked = 'https://github.com/mallory/shop.git'
const open = { number: 12, closed: false }

/** The event's name, its payload, GITHUB_REF, GITHUB_SHA, and the code that is meant. */
const table: readonly (readonly [string, string, unknown, string, string, Expected])[] = [
  ['a push', 'push', payloads.push, 'refs/heads/main', HEAD, { gitUrl: own, branch: 'main', commit: HEAD }],
  ['a branch in a folder', 'push', payloads.push, 'refs/heads/a/b', HEAD, { gitUrl: own, branch: 'a/b', commit: HEAD }],
  [
    'a branch named as a merge',
    'push',
    {},
    'refs/heads/1/merge',
    HEAD,
    { gitUrl: own, branch: '1/merge', commit: HEAD },
  ],
  [
    'a push without a hash in the environment',
    'push',
    payloads.push,
    'refs/heads/main',
    '',
    { gitUrl: own, branch: 'main', commit: HEAD },
  ],
  ['a tag', 'push', payloads.tagPush, 'refs/tags/v1', HEAD, { gitUrl: own, commit: HEAD }],
  [
    'an annotated tag without a hash in the environment',
    'push',
    payloads.tagPush,
    'refs/tags/v1',
    '',
    { gitUrl: own, commit: HEAD },
  ],
  [
    'a pushed deletion',
    'push',
    payloads.branchDeletion,
    'refs/heads/old',
    MERGE,
    { gitUrl: own, skip: 'old was deleted: there is nothing to deploy.' },
  ],
  [
    'a deletion',
    'delete',
    payloads.deletion,
    'refs/heads/main',
    MERGE,
    { gitUrl: own, skip: 'old was deleted: there is nothing to deploy.' },
  ],
  [
    'a pull request',
    'pull_request',
    payloads.pullRequest('opened'),
    'refs/pull/12/merge',
    MERGE,
    { gitUrl: own, branch: 'fix', commit: HEAD, pullRequest: open },
  ],
  [
    'its review',
    'pull_request_review',
    payloads.pullRequest('submitted'),
    'refs/pull/12/merge',
    MERGE,
    { gitUrl: own, branch: 'fix', commit: HEAD, pullRequest: open },
  ],
  [
    'a closed one',
    'pull_request',
    payloads.pullRequest('closed'),
    'refs/heads/main',
    MERGE,
    { gitUrl: own, branch: 'fix', commit: HEAD, pullRequest: { number: 12, closed: true } },
  ],
  [
    'one of a fork',
    'pull_request',
    payloads.pullRequest('opened', 'fork'),
    'refs/pull/12/merge',
    MERGE,
    { gitUrl: forked, branch: 'fix', commit: HEAD, pullRequest: open, fork: 'mallory/shop' },
  ],
  [
    'one of a fork in the base',
    'pull_request_target',
    payloads.pullRequest('opened', 'fork'),
    'refs/heads/main',
    MERGE,
    { gitUrl: forked, branch: 'fix', commit: HEAD, pullRequest: open, fork: 'mallory/shop' },
  ],
  [
    'one of a fork that is gone',
    'pull_request',
    payloads.pullRequest('closed', 'nowhere'),
    'refs/pull/12/merge',
    MERGE,
    { branch: 'fix', commit: HEAD, pullRequest: { number: 12, closed: true }, fork: 'a deleted repository' },
  ],
  [
    'one without a payload',
    'pull_request',
    undefined,
    'refs/pull/12/merge',
    MERGE,
    { gitUrl: own, unknownPullRequest: true },
  ],
  ['a release', 'release', payloads.release, 'refs/tags/v1', HEAD, { gitUrl: own, commit: HEAD }],
  [
    'a merge group',
    'merge_group',
    payloads.mergeGroup,
    'refs/heads/gh-readonly-queue/main/pr-12-b',
    HEAD,
    { gitUrl: own, branch: 'gh-readonly-queue/main/pr-12-b', commit: HEAD, mergeGroup: true },
  ],
  [
    'a workflow after a push',
    'workflow_run',
    payloads.workflowRun(),
    'refs/heads/main',
    MERGE,
    { gitUrl: own, branch: 'fix', commit: HEAD },
  ],
  [
    'a workflow after one that failed',
    'workflow_run',
    payloads.workflowRun({ conclusion: 'failure' }),
    'refs/heads/main',
    MERGE,
    { gitUrl: own, branch: 'fix', commit: HEAD, skip: 'The workflow that this run follows has ended with "failure".' },
  ],
  [
    'a workflow beside one that runs',
    'workflow_run',
    payloads.workflowRun({ conclusion: null }),
    'refs/heads/main',
    MERGE,
    { gitUrl: own, branch: 'fix', commit: HEAD },
  ],
  [
    'a workflow after a pull request',
    'workflow_run',
    payloads.workflowRun({ event: 'pull_request', numbers: [12] }),
    'refs/heads/main',
    MERGE,
    { gitUrl: own, branch: 'fix', commit: HEAD, pullRequest: open },
  ],
  [
    'a workflow after one of a fork',
    'workflow_run',
    payloads.workflowRun({ event: 'pull_request', from: 'fork' }),
    'refs/heads/main',
    MERGE,
    { gitUrl: forked, branch: 'fix', commit: HEAD, unknownPullRequest: true, fork: 'mallory/shop' },
  ],
  [
    'a workflow started by hand',
    'workflow_dispatch',
    payloads.dispatch,
    'refs/heads/next',
    HEAD,
    { gitUrl: own, branch: 'next', commit: HEAD },
  ],
  [
    'one started by hand on a tag',
    'workflow_dispatch',
    payloads.dispatch,
    'refs/tags/v1',
    HEAD,
    { gitUrl: own, commit: HEAD },
  ],
  ['a schedule', 'schedule', payloads.schedule, 'refs/heads/main', HEAD, { gitUrl: own, branch: 'main', commit: HEAD }],
  [
    'an event named as what all objects have',
    'constructor',
    {},
    'refs/heads/main',
    HEAD,
    { gitUrl: own, branch: 'main', commit: HEAD },
  ],
]

test.each(table)('%s', (_, name, payload, ref, sha, expected) => {
  const env = { ...pushEnvironment, GITHUB_EVENT_NAME: name, GITHUB_REF: ref, GITHUB_SHA: sha }
  const repository = { fullName: 'acme/shop', name: 'shop', gitUrl: own }
  expect(readEvent(env, payload)).toEqual({ name, repository, ...expected })
})

test('on an own server, repositories and forks are there', () => {
  const env = { ...pushEnvironment, GITHUB_SERVER_URL: 'https://git.example.com/' }
  expect(readEvent(env, payloads.push).gitUrl).toBe('https://git.example.com/acme/shop.git')
  const event = readEvent({ ...env, GITHUB_EVENT_NAME: 'pull_request' }, payloads.pullRequest('opened', 'fork'))
  expect(event.gitUrl).toBe('https://git.example.com/mallory/shop.git')
})

test('outside of a workflow nothing is guessed', () => {
  expect(readEvent({}, undefined)).toEqual({ name: '' })
})

test.each([
  null,
  1,
  'x',
  [],
  { pull_request: null },
  { pull_request: { head: 'x' } },
  { workflow_run: { pull_requests: {} } },
])('a payload of an unknown shape breaks nothing: %j', (payload) => {
  for (const name of ['push', 'pull_request', 'workflow_run', 'merge_group', 'delete']) {
    expect(() => readEvent({ ...pushEnvironment, GITHUB_EVENT_NAME: name }, payload)).not.toThrow()
  }
})
