import { expect, test } from 'vitest'
import { readEvent } from '../../../action/src/event.ts'
import * as payloads from '../../harness/action/payloads.ts'
import { pushEnvironment } from '../../harness/run-action.ts'
import { expectEvent, type Row } from './event-rows.ts'

const { HEAD, MERGE } = payloads

const own = 'https://github.com/acme/shop.git'
const forked = 'https://github.com/mallory/shop.git'
const open = { number: 12, closed: false }

const rows: readonly Row[] = [
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
    'an annotated tag without a hash in the environment',
    'push',
    payloads.tagPush,
    'refs/tags/v1',
    '',
    { gitUrl: own, commit: HEAD },
  ],
  [
    'a pushed deletion of a branch',
    'push',
    payloads.branchDeletion,
    'refs/heads/old',
    MERGE,
    { gitUrl: own, skip: 'old was deleted: there is nothing to deploy.' },
  ],
  [
    'a release that is taken back',
    'release',
    { action: 'unpublished', release: {} },
    'refs/tags/v1',
    HEAD,
    { gitUrl: own, skip: 'The release was unpublished: there is nothing to deploy.' },
  ],
  [
    'a pull request of a fork',
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
  [
    'a workflow after one that failed',
    'workflow_run',
    payloads.workflowRun({ conclusion: 'failure' }),
    'refs/heads/main',
    MERGE,
    { gitUrl: own, branch: 'fix', commit: HEAD, skip: 'The workflow that this run follows has ended with "failure".' },
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
    'a schedule',
    'schedule',
    { schedule: '0 3 * * *' },
    'refs/heads/main',
    HEAD,
    { gitUrl: own, branch: 'main', commit: HEAD },
  ],
  [
    'an event named as what all objects have',
    'constructor',
    {},
    'refs/heads/main',
    HEAD,
    { gitUrl: own, branch: 'main', commit: HEAD },
  ],
]

test.each(rows)('%s', (...row) => expectEvent(row))

test('on GitHub Enterprise Server, repositories and forks have the server’s addresses', () => {
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
