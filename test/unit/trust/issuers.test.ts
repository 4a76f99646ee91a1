import { describe, expect, it } from 'vitest'
import { decide, matches, runOf } from '../../../server/src/features/accounts/trust/run-claims.ts'
import { gitHubClaims } from '../../harness/oidc-issuer.ts'

const gitHub = 'https://token.actions.githubusercontent.com'
const pullRequest = { event_name: 'pull_request', ref: 'refs/pull/7/merge' }
const gitLabRun = {
  project_id: '22',
  project_path: 'group/sub/shop',
  ref: 'main',
  ref_type: 'branch',
  ref_path: 'refs/heads/main',
  pipeline_id: '1212',
  pipeline_source: 'push',
  environment: 'production',
  user_login: 'jane',
  ci_config_ref_uri: 'gitlab.com/group/sub/shop//.gitlab-ci.yml@refs/heads/main',
}

describe('the facts of a run', () => {
  it.each([
    [
      gitHub,
      { ...gitHubClaims(gitHub, 'a'), environment: 'production' },
      {
        repository: 'acme/shop',
        repositoryId: '700100200',
        ref: 'refs/heads/main',
        environment: 'production',
        event: 'push',
        workflow: 'deploy.yml',
        actor: 'octocat',
        runUrl: 'https://github.com/acme/shop/actions/runs/9000000001',
      },
    ],
    [
      'https://github.example.com/_services/token',
      { repository: 'a/b', run_id: '1' },
      { repository: 'a/b', runUrl: 'https://github.example.com/a/b/actions/runs/1' },
    ],
    [
      'https://git.example.com/api/actions',
      { repository: 'a/b', repository_id: '3', workflow_ref: 'a/b/.forgejo/workflows/ship.yml@refs/heads/main' },
      { repository: 'a/b', repositoryId: '3', workflow: 'ship.yml' },
    ],
    [
      'https://gitlab.com',
      gitLabRun,
      {
        repository: 'group/sub/shop',
        repositoryId: '22',
        ref: 'refs/heads/main',
        environment: 'production',
        event: 'push',
        workflow: '.gitlab-ci.yml',
        actor: 'jane',
        runUrl: 'https://gitlab.com/group/sub/shop/-/pipelines/1212',
      },
    ],
    [
      'https://gitlab.example.com',
      { ...gitLabRun, ref_path: undefined },
      { ref: 'refs/heads/main', repositoryId: '22' },
    ],
    [
      'https://agent.buildkite.com',
      {
        organization_slug: 'acme',
        pipeline_slug: 'shop',
        pipeline_id: '0184',
        build_branch: 'main',
        build_number: 7,
        build_source: 'webhook',
      },
      {
        repository: 'acme/shop',
        repositoryId: '0184',
        ref: 'refs/heads/main',
        event: 'webhook',
        runUrl: 'https://buildkite.com/acme/shop/builds/7',
      },
    ],
    [
      'https://oidc.circleci.com/org/0184',
      {
        'oidc.circleci.com/project-id': 'p1',
        'oidc.circleci.com/vcs-origin': 'github.com/acme/shop',
        'oidc.circleci.com/vcs-ref': 'refs/heads/main',
        // Users of CircleCI may add claims of any name.
        repository: 'acme/other',
        project_path: 'acme/other',
      },
      { repository: 'github.com/acme/shop', repositoryId: 'p1', ref: 'refs/heads/main' },
    ],
    [
      'https://accounts.google.com',
      { email: 'a@b.example', repository: 'a/b' },
      { repository: null, actor: 'a@b.example' },
    ],
  ])('of %s come from its claims', (issuer, claims, facts) => {
    expect(runOf(issuer, claims)).toMatchObject({ ...facts, isPullRequest: false })
  })

  it.each([
    [gitHub, pullRequest],
    [gitHub, { event_name: 'pull_request_target', ref: 'refs/heads/main' }],
    [
      'https://gitlab.com',
      { ...gitLabRun, pipeline_source: 'merge_request_event', ref_path: 'refs/merge-requests/1/head' },
    ],
    ['https://gitlab.com', { ...gitLabRun, pipeline_source: 'external_pull_request_event' }],
    ['https://oidc.circleci.com/org/1', { 'oidc.circleci.com/vcs-ref': 'refs/pull/3/head' }],
    ['https://oidc.circleci.com/org/1', { 'oidc.circleci.com/vcs-ref': 'refs/heads/pull/3' }],
    [
      'https://agent.buildkite.com',
      { organization_slug: 'a', pipeline_slug: 'b', build_branch: 'mallory:main', build_number: 1 },
    ],
  ])('of %s show that it is a pull request: %j', (issuer, claims) => {
    expect(runOf(issuer, claims).isPullRequest).toBe(true)
  })
})

describe('a rule', () => {
  const shop = { repository: 'acme/shop', repository_id: '700100200' }
  const open = { branch: null, tag: null, environment: null, event: null, workflow: null, claims: {} }
  const decideAbout = (rule: object, claims: object) => {
    const all = { ...gitHubClaims(gitHub, 'a'), ...claims }
    const decision = decide([{ ...shop, ...open, ...rule }], runOf(gitHub, all), all)
    return decision instanceof Error ? decision.reason : 'allowed'
  }

  it.each([
    ['allowed', {}, {}],
    ['allowed', { branch: 'ma*' }, {}],
    ['allowed', { tag: 'v*' }, { ref: 'refs/tags/v1.2' }],
    ['tag', { tag: 'v*' }, {}],
    ['tag', { tag: '*' }, {}],
    ['event', {}, pullRequest],
    ['event', { event: '*' }, pullRequest],
    ['event', { event: 'pull_*' }, pullRequest],
    ['allowed', { event: 'pull_request' }, pullRequest],
    ['repository', { event: 'pull_request' }, { ...pullRequest, repository: 'mallory/shop' }],
    ['branch', { event: 'pull_request', branch: '*' }, pullRequest],
    ['event', { event: 'pull_request_target' }, { event_name: 'pull_request_target' }],
    ['allowed', { claims: { runner_environment: 'github-hosted' } }, {}],
    ['other_claim', { claims: { runner_environment: 'github-hosted' } }, { runner_environment: 'self-hosted' }],
    ['other_claim', { claims: { team: '*' } }, {}],
    ['other_claim', { claims: { toString: '*' } }, {}],
    ['other_claim', { claims: { team: 'a' } }, { team: ['a'] }],
    ['other_claim', { claims: { team: '1' } }, { team: 1 }],
  ])('answers %s: %j, %j', (outcome, rule, claims) => {
    expect(decideAbout(rule, claims)).toBe(outcome)
  })

  it('that fits is found among others, and a refusal comes from the closest rule', () => {
    const claims = gitHubClaims(gitHub, 'a')
    const rules = ['other', 'main', 'next'].map((branch) => ({ ...shop, ...open, branch }))
    expect(decide(rules, runOf(gitHub, claims), claims)).toBe(rules[1])
    const stranger = { ...shop, ...open, repository: 'a/b' }
    expect(decide([stranger, ...rules.slice(0, 1)], runOf(gitHub, claims), claims)).toMatchObject({ reason: 'branch' })
  })
})

it.each([
  ['main', 'main', true],
  ['main', 'main2', false],
  ['*', '', true],
  ['*', 'a/b', true],
  ['release/*', 'release/1', true],
  ['release/*', 'release', false],
  ['*-fix', 'a-fix', true],
  ['a*a', 'a', false],
  ['a*b*c', 'a1b2c', true],
  ['a*b*c', 'acb', false],
  ['*.*', 'ab', false],
  ['a.c', 'abc', false],
])('the pattern %s and the text %j: %j', (pattern, text, fits) => {
  expect(matches(pattern, text)).toBe(fits)
})
