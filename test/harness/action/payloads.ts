/**
 * Payloads for acme/shop as in the file of GITHUB_EVENT_PATH, without the fields that the action does not read.
 * `recorded.ts` has more payloads.
 */

export const HEAD = 'a'.repeat(40)
export const MERGE = 'b'.repeat(40)
export const TAG = 'c'.repeat(40)

const repository = { full_name: 'acme/shop', clone_url: 'https://github.com/acme/shop.git', fork: false }
const fork = { full_name: 'mallory/shop', clone_url: 'https://github.com/mallory/shop.git', fork: true }

export const push = {
  ref: 'refs/heads/main',
  before: MERGE,
  after: HEAD,
  created: false,
  deleted: false,
  forced: false,
  head_commit: { id: HEAD, message: 'Change' },
  repository,
}

/** The push of an annotated tag, whose `after` is the tag object and not the commit. */
export const tagPush = { ...push, ref: 'refs/tags/v1', after: TAG, created: true }

export const branchDeletion = {
  ...push,
  ref: 'refs/heads/old',
  after: '0'.repeat(40),
  deleted: true,
  head_commit: null,
}

export function pullRequest(action: string, from: 'here' | 'fork' | 'nowhere' = 'here') {
  const repo = from === 'here' ? repository : from === 'fork' ? fork : null
  return {
    action,
    number: 12,
    pull_request: {
      number: 12,
      state: action === 'closed' ? 'closed' : 'open',
      head: { ref: 'fix', sha: HEAD, repo },
      base: { ref: 'main', sha: MERGE, repo: repository },
    },
    repository,
  }
}

export const mergeGroup = {
  action: 'checks_requested',
  merge_group: { head_sha: HEAD, head_ref: 'refs/heads/gh-readonly-queue/main/pr-12-b', base_ref: 'refs/heads/main' },
  repository,
}

export function workflowRun(
  run: {
    readonly event?: string
    readonly conclusion?: string | null
    readonly from?: 'here' | 'fork'
    readonly numbers?: readonly number[]
  } = {},
) {
  const { event = 'push', conclusion = 'success', from = 'here', numbers = [] } = run
  return {
    action: 'completed',
    workflow_run: {
      event,
      conclusion,
      head_branch: 'fix',
      head_sha: HEAD,
      head_repository: from === 'here' ? repository : fork,
      pull_requests: numbers.map((number) => ({ number })),
    },
    repository,
  }
}

/** The environment of a run for a pull request. */
export const pullRequestEnvironment = {
  GITHUB_EVENT_NAME: 'pull_request',
  GITHUB_REF: 'refs/pull/12/merge',
  GITHUB_REF_NAME: '12/merge',
  GITHUB_HEAD_REF: 'fix',
  GITHUB_SHA: MERGE,
} as const
