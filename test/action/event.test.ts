import { expect, test } from 'vitest'
import { readEvent, type WorkflowEvent } from '../../action/src/event.ts'
import { pushEnvironment } from '../harness/run-action.ts'
import * as payloads from './payloads.ts'
import { type Recorded, recorded, recordedEvents } from './recorded.ts'

const { HEAD, MERGE } = payloads

type Expected = Omit<WorkflowEvent, 'name' | 'repository'>
/** The event's name, its payload, GITHUB_REF, GITHUB_SHA, and the code that is meant. */
type Row = readonly [title: string, event: string, payload: unknown, ref: string, sha: string, expected: Expected]

const hello = 'https://github.com/Codertocat/Hello-World.git'
const octo = 'https://github.com/octo-org/octo-repo.git'
const change = '6113728f27ae82c7b1a177c8d03f9e96e0adf246'
const head = 'ec26c3e57ca3a959ca5aad62de7213c562f8c821'
const run = '3484a3fb816e0859fd6e1cea078d76385ff50625'
const changes = { gitUrl: hello, branch: 'changes', commit: head, pullRequest: { number: 2, closed: false } }
const queue = 'gh-readonly-queue/main/pr-104-929f8209d40f77f4abc622a499c93a83babdbe64'
const isAction = (action: string) => (payload: Recorded) => payload.action === action
const isRef = (ref: string) => (payload: Recorded) => payload.ref === ref && payload.deleted === false

/** Of a schedule, a deleted branch and a pull request from a fork there are no recordings; they stand in `written`. */
const received: readonly Row[] = [
  [
    'a push',
    'push',
    recorded('push', isRef('refs/heads/master')),
    'refs/heads/master',
    change,
    { gitUrl: hello, branch: 'master', commit: change },
  ],
  [
    'a push without a hash in the environment',
    'push',
    recorded('push', isRef('refs/heads/master')),
    'refs/heads/master',
    '',
    { gitUrl: hello, branch: 'master', commit: change },
  ],
  [
    'a tag',
    'push',
    recorded('push', isRef('refs/tags/simple-tag')),
    'refs/tags/simple-tag',
    change,
    { gitUrl: hello, commit: change },
  ],
  [
    'a pushed deletion of a tag',
    'push',
    recorded('push', ({ deleted }) => deleted === true),
    'refs/tags/simple-tag',
    '0'.repeat(40),
    { gitUrl: hello, skip: 'simple-tag was deleted: there is nothing to deploy.' },
  ],
  [
    'a deletion',
    'delete',
    recorded('delete'),
    'refs/heads/master',
    MERGE,
    { gitUrl: hello, skip: 'simple-tag was deleted: there is nothing to deploy.' },
  ],
  ['a new tag', 'create', recorded('create'), 'refs/tags/simple-tag', change, { gitUrl: hello, commit: change }],
  ...['opened', 'synchronize', 'reopened', 'ready_for_review', 'labeled'].map(
    (action): Row => [
      `a pull request, ${action}`,
      'pull_request',
      recorded('pull_request', isAction(action)),
      'refs/pull/2/merge',
      MERGE,
      changes,
    ],
  ),
  [
    'one that is closed',
    'pull_request',
    recorded('pull_request', isAction('closed')),
    'refs/pull/2/merge',
    MERGE,
    { ...changes, pullRequest: { number: 2, closed: true } },
  ],
  [
    'one in the base',
    'pull_request_target',
    recorded('pull_request', isAction('opened')),
    'refs/heads/master',
    MERGE,
    changes,
  ],
  [
    'its review',
    'pull_request_review',
    recorded('pull_request_review', isAction('submitted')),
    'refs/pull/2/merge',
    MERGE,
    changes,
  ],
  [
    'a comment in its review',
    'pull_request_review_comment',
    recorded('pull_request_review_comment'),
    'refs/pull/2/merge',
    MERGE,
    changes,
  ],
  ...['published', 'released', 'prereleased', 'created', 'edited'].map(
    (action): Row => [
      `a release, ${action}`,
      'release',
      recorded('release', isAction(action)),
      'refs/tags/0.0.1',
      change,
      { gitUrl: hello, commit: change },
    ],
  ),
  [
    'a release that is deleted',
    'release',
    recorded('release', isAction('deleted')),
    'refs/tags/0.0.1',
    change,
    { gitUrl: hello, skip: 'The release 0.0.1 was deleted: there is nothing to deploy.' },
  ],
  [
    'a merge group',
    'merge_group',
    recorded('merge_group'),
    `refs/heads/${queue}`,
    '2ffea6db159f6b6c47a24e778fb9ef40cf6b1c7d',
    { gitUrl: octo, branch: queue, commit: '2ffea6db159f6b6c47a24e778fb9ef40cf6b1c7d', mergeGroup: true },
  ],
  [
    'a workflow after another one',
    'workflow_run',
    recorded('workflow_run', (payload) => payload.workflow_run?.conclusion === 'success'),
    'refs/heads/main',
    MERGE,
    { gitUrl: octo, branch: 'master', commit: run },
  ],
  [
    'one whose commit is in a pull request as well',
    'workflow_run',
    recorded('workflow_run', (payload) => payload.workflow_run?.pull_requests.length === 1),
    'refs/heads/main',
    MERGE,
    { gitUrl: octo, branch: 'master', commit: run },
  ],
  [
    'one after a run that waits for somebody',
    'workflow_run',
    recorded('workflow_run', (payload) => payload.workflow_run?.conclusion === 'action_required'),
    'refs/heads/main',
    MERGE,
    {
      gitUrl: octo,
      branch: 'master',
      commit: run,
      skip: 'The workflow that this run follows has ended with "action_required".',
    },
  ],
  [
    'one beside a run',
    'workflow_run',
    recorded('workflow_run', (payload) => payload.action === 'requested' && payload.workflow_run?.conclusion === null),
    'refs/heads/main',
    MERGE,
    { gitUrl: octo, branch: 'master', commit: run },
  ],
  [
    'one after a run of another repository',
    'workflow_run',
    recorded('workflow_run', ({ repository }) => repository?.full_name === 'Codertocat/Hello-World'),
    'refs/heads/main',
    MERGE,
    { gitUrl: octo, branch: 'main', commit: '5779607b49aab1200488439f02372c57b4f75444', fork: 'octo-org/octo-repo' },
  ],
  [
    'a workflow started by hand',
    'workflow_dispatch',
    recorded('workflow_dispatch'),
    'refs/heads/main',
    change,
    { gitUrl: octo, branch: 'main', commit: change },
  ],
  [
    'one started by hand on a tag',
    'workflow_dispatch',
    recorded('workflow_dispatch'),
    'refs/tags/v1',
    change,
    { gitUrl: octo, commit: change },
  ],
  [
    'one started through the API',
    'repository_dispatch',
    recorded('repository_dispatch'),
    'refs/heads/main',
    change,
    { gitUrl: octo, branch: 'main', commit: change },
  ],
]

const own = 'https://github.com/acme/shop.git'
const forked = 'https://github.com/mallory/shop.git'
const open = { number: 12, closed: false }

const written: readonly Row[] = [
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

const environmentOf = (event: string, payload: unknown, ref: string, sha: string) => ({
  ...pushEnvironment,
  GITHUB_REPOSITORY: (payload as Recorded | undefined)?.repository?.full_name ?? 'acme/shop',
  GITHUB_EVENT_NAME: event,
  GITHUB_REF: ref,
  GITHUB_SHA: sha,
})

test.each([...received, ...written])('%s', (_, name, payload, ref, sha, expected) => {
  const env = environmentOf(name, payload, ref, sha)
  const { repository, ...event } = readEvent(env, payload)
  expect(event).toEqual({ name, ...expected })
  expect(repository?.fullName).toBe(env.GITHUB_REPOSITORY)
  expect(repository?.gitUrl).toBe(`https://github.com/${env.GITHUB_REPOSITORY}.git`)
})

test.each(recordedEvents)('whatever GitHub sends of $name says nothing or names its code', ({ name, examples }) => {
  for (const payload of examples) {
    const event = readEvent(environmentOf(name, payload, 'refs/heads/main', HEAD), payload)
    expect(event.skip ?? event.commit).toEqual(expect.any(String))
  }
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
