import { expect, test } from 'vitest'
import { readEvent } from '../../../action/src/event.ts'
import { HEAD, MERGE } from '../../harness/action/payloads.ts'
import { environmentOf, expectEvent, type Row } from './event-rows.ts'
import { type Recorded, recorded, recordedEvents } from './recorded.ts'

const hello = 'https://github.com/Codertocat/Hello-World.git'
const octo = 'https://github.com/octo-org/octo-repo.git'
const change = '6113728f27ae82c7b1a177c8d03f9e96e0adf246'
const head = 'ec26c3e57ca3a959ca5aad62de7213c562f8c821'
const run = '3484a3fb816e0859fd6e1cea078d76385ff50625'
const changes = { gitUrl: hello, branch: 'changes', commit: head, pullRequest: { number: 2, closed: false } }
const queue = 'gh-readonly-queue/main/pr-104-929f8209d40f77f4abc622a499c93a83babdbe64'
const isAction = (action: string) => (payload: Recorded) => payload.action === action
const isRef = (ref: string) => (payload: Recorded) => payload.ref === ref && payload.deleted === false

/** There are no recordings of a schedule, a deleted branch and a fork's pull request; event.test.ts has them. */
const rows: readonly Row[] = [
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
    {
      gitUrl: octo,
      branch: queue,
      commit: '2ffea6db159f6b6c47a24e778fb9ef40cf6b1c7d',
      mergeGroup: true,
      caution: expect.stringContaining('not merged yet'),
    },
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

test.each(rows)('%s', (...row) => expectEvent(row))

test.each(recordedEvents)(
  'every recorded payload of $name gives a commit or a reason to skip',
  ({ name, examples }) => {
    for (const payload of examples) {
      const event = readEvent(environmentOf(name, payload, 'refs/heads/main', HEAD), payload)
      expect(event.skip ?? event.commit).toEqual(expect.any(String))
    }
  },
)
