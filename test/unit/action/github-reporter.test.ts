import { describe, test } from 'vitest'
import { HEAD, pullRequest, pullRequestEnvironment } from '../../harness/action/payloads.ts'
import {
  APP,
  created,
  DEPLOYMENT,
  KEY,
  PROJECT,
  type Script,
  scriptedServer,
  seen,
} from '../../harness/action/support.ts'
import { type ActionRun, runAction } from '../../harness/run-action.ts'
import { gitHubApi, type Override, TOKEN } from './github-api.ts'

type Api = Awaited<ReturnType<typeof gitHubApi>>

const marker = `<!-- fairlead:${PROJECT}:shop-pr-12 -->`
const running: Script = { create: created, polls: seen('running') }
const failing: Script = {
  create: created,
  polls: seen('failed', {
    stage: 'build',
    code: 'build_failed',
    message: `The build failed. ${'x'.repeat(200)}\nsecret`,
  }),
}

async function run(api: Api, { inputs, env, ...rest }: Partial<ActionRun> = {}, script = running) {
  await using server = await scriptedServer(script)
  return await runAction({
    inputs: { 'api-url': server.url, 'api-key': KEY, 'project-id': PROJECT, 'github-token': TOKEN, ...inputs },
    env: { ...pullRequestEnvironment, GITHUB_API_URL: api.url, GITHUB_RUN_ID: '7', ...env },
    payload: pullRequest('synchronize'),
    ...rest,
  })
}

const warnings = (stdout: string) => [...stdout.matchAll(/^::warning title=Fairlead::(.*)$/gm)].map(([, text]) => text)

describe.concurrent('a deployment at GitHub', () => {
  test('is made for an environment and gets the states and the address', async ({ expect }) => {
    await using api = await gitHubApi()
    const result = await run(api, { inputs: { environment: 'preview' } })
    expect(result).toMatchObject({ code: 0, outputs: { status: 'running' } })
    expect(warnings(result.stdout)).toEqual([])
    const [made] = api.deployments
    expect(made?.request).toEqual({
      ref: HEAD,
      environment: 'preview',
      auto_merge: false,
      required_contexts: [],
      payload: { fairlead: marker },
      transient_environment: true,
      production_environment: false,
    })
    const log_url = 'https://github.com/acme/shop/actions/runs/7'
    expect(made?.statuses).toMatchObject([
      { state: 'in_progress', log_url },
      { state: 'success', environment_url: APP, log_url },
    ])
  })

  test('of a push is neither transient nor commented', async ({ expect }) => {
    await using api = await gitHubApi()
    const env = { GITHUB_EVENT_NAME: 'push', GITHUB_SHA: HEAD, GITHUB_REF: 'refs/heads/main' }
    await run(api, { inputs: { environment: 'production' }, env, payload: {} })
    expect(api.deployments[0]?.request).not.toHaveProperty('transient_environment')
    expect(api.comments).toEqual([])
  })

  test('fails with a short description', async ({ expect }) => {
    await using api = await gitHubApi()
    const result = await run(api, { inputs: { environment: 'preview' } }, failing)
    expect(result.code).toBe(1)
    expect(warnings(result.stdout)).toEqual([])
    expect(api.deployments[0]?.statuses.at(-1)).toMatchObject({
      state: 'failure',
      description: expect.stringContaining(`${DEPLOYMENT} failed in the stage build`),
    })
  })

  test('of a step that does not wait becomes inactive at the next deployment', async ({ expect }) => {
    await using api = await gitHubApi()
    const inputs = { environment: 'preview', wait: 'false' }
    await run(api, { inputs })
    expect(api.deployments[0]?.statuses.at(-1)).toMatchObject({ state: 'in_progress' })
    await run(api, { inputs })
    const states = api.deployments.map(({ statuses }) => statuses.at(-1)?.['state'])
    expect(states).toEqual(['inactive', 'in_progress'])
  })

  test('ends although GitHub fails for a moment, or in the post step when GitHub fails for longer', async ({
    expect,
  }) => {
    let failures = 0
    const override: Override = (method, path) =>
      method === 'POST' && path.endsWith('/statuses') && failures-- > 0 ? { status: 502 } : undefined
    await using api = await gitHubApi({ override })
    failures = 2
    await run(api, { inputs: { environment: 'preview' } })
    expect(api.deployments[0]?.statuses.map(({ state }) => state)).toEqual(['in_progress', 'success'])
    const beginning = await run(api, {
      inputs: { environment: 'preview' },
      onLine: (line) => {
        if (line.startsWith('GitHub')) failures = 100
      },
    })
    expect(api.deployments[1]?.statuses.map(({ state }) => state)).toEqual(['in_progress'])
    failures = 0
    await run(api, { inputs: { environment: 'preview' }, env: beginning.state })
    expect(api.deployments[1]?.statuses.at(-1)).toMatchObject({ state: 'success', environment_url: APP })
  })

  test('is not made without an environment', async ({ expect }) => {
    await using api = await gitHubApi()
    await run(api)
    expect(api.deployments).toEqual([])
  })

  test('of a killed step ends as an error', async ({ expect }) => {
    await using api = await gitHubApi()
    await using server = await scriptedServer({
      ...running,
      polls: seen('building'),
      log: 'hang',
      cancel: seen('canceled'),
    })
    const inputs = { 'api-url': server.url, environment: 'preview' }
    // Kills the step once both the deployment and the GitHub deployment have been saved.
    const awaited = new Set(['building', 'GitHub'])
    const killed = await run(api, {
      inputs,
      onLine: (line, kill) => awaited.delete(line.split(' ')[0] ?? '') && awaited.size === 0 && kill('SIGKILL'),
    })
    expect(killed.state).toMatchObject({ STATE_deployment: DEPLOYMENT, 'STATE_github-deployment': '100' })
    await run(api, { inputs, env: killed.state })
    expect(api.deployments[0]?.statuses.map(({ state }) => state)).toEqual(['in_progress', 'error'])
  })
})

describe.concurrent('the comment of a pull request', () => {
  test('is written once and then kept up to date', async ({ expect }) => {
    await using api = await gitHubApi({ comments: ['Nice', `> ${marker}\nquoted`] })
    await run(api, {}, failing)
    expect(api.comments).toHaveLength(3)
    expect(api.comments[2]?.body).toMatch(/^<!-- fairlead:.*-->\n<h3>Not deployed: shop-pr-12<\/h3>\n/)
    expect(api.comments[2]?.body).not.toContain('secret')
    await run(api)
    expect(api.comments).toHaveLength(3)
    expect(api.comments[2]?.body).toContain(`<a href="${APP}">${APP}</a>`)
    expect(api.comments[2]?.body).toContain(`<th>Commit</th><td>${HEAD}</td>`)
  })

  test('does not change a comment of another author, however it begins', async ({ expect }) => {
    const foreign = `${marker}\nmine`
    await using api = await gitHubApi({ comments: [{ body: foreign, isOfOthers: true }] })
    await run(api)
    await run(api)
    expect(api.comments).toHaveLength(2)
    expect(api.comments[0]?.body).toBe(foreign)
  })

  test('is found behind hundreds of other comments', async ({ expect }) => {
    const others = Array.from({ length: 230 }, (_, at) => `comment ${at}`)
    await using api = await gitHubApi({ comments: [...others, `${marker}\nold`] })
    await run(api)
    expect(api.comments).toHaveLength(231)
    expect(api.comments[230]?.body).toContain('Deployed shop-pr-12')
  })

  test('exists once per app', async ({ expect }) => {
    await using api = await gitHubApi()
    await run(api, { inputs: { name: 'web' } })
    await run(api, { inputs: { name: 'admin -->' } })
    expect(api.comments.map(({ body }) => body.split('\n')[0])).toEqual([
      `<!-- fairlead:${PROJECT}:web-pr-12 -->`,
      `<!-- fairlead:${PROJECT}:admin%20--%3E-pr-12 -->`,
    ])
  })

  test('can be turned off', async ({ expect }) => {
    await using api = await gitHubApi()
    await run(api, { inputs: { comment: 'false' } })
    expect(api.requests).toEqual([])
  })

  test('says that the app was removed, and the app’s deployments are inactive', async ({ expect }) => {
    await using api = await gitHubApi()
    await run(api, { inputs: { environment: 'preview' } })
    await run(api, { inputs: { environment: 'preview', name: 'other' } })
    const empty: Script = { create: 'hang', polls: { status: 200, body: { deployments: [] } } }
    const closed = { inputs: { environment: 'preview' }, payload: pullRequest('closed') }
    expect(await run(api, closed, empty)).toMatchObject({ code: 0 })
    expect(api.comments.map(({ body }) => body.split('\n')[1])).toEqual([
      'The app of this pull request was removed.',
      '<h3>Deployed other-pr-12</h3>',
    ])
    expect(api.deployments.map(({ statuses }) => statuses.at(-1)?.['state'])).toEqual(['inactive', 'success'])
  })

  test('is not written for an app without a comment', async ({ expect }) => {
    await using api = await gitHubApi()
    const empty: Script = { create: 'hang', polls: { status: 200, body: { deployments: [] } } }
    await run(api, { payload: pullRequest('closed') }, empty)
    expect(api.comments).toEqual([])
  })
})

describe.concurrent('problems with GitHub do not fail a deployment:', () => {
  const forbidden =
    (accepted: string): Override =>
    (method) =>
      method === 'GET' ? undefined : { status: 403, headers: { 'x-accepted-github-permissions': accepted } }

  test('that lacks a permission: one warning names it', async ({ expect }) => {
    const override: Override = (method, path) =>
      forbidden(path.startsWith('/issues') ? 'issues=write; pull_requests=write' : 'deployments=write')(method, path)
    await using api = await gitHubApi({ override })
    const result = await run(api, { inputs: { environment: 'preview' } })
    expect(result).toMatchObject({ code: 0, outputs: { status: 'running' } })
    expect(warnings(result.stdout)).toEqual([
      'The action cannot show the deployment to preview: the token lacks a permission. Give the job `permissions`: { deployments: write }.',
      'The action cannot comment on the pull request: the token lacks a permission. Give the job `permissions`: { issues: write } or { pull-requests: write }.',
    ])
  })

  test.for<[string, Override, RegExp]>([
    ['is down', () => ({ status: 502 }), /status 502/],
    [
      'limits the rate of requests',
      () => ({ status: 403, headers: { 'x-ratelimit-remaining': '0' } }),
      /no more requests/,
    ],
    ['redirects', () => ({ status: 302, headers: { location: 'https://example.com' } }), /status 302/],
    ['hides the repository', () => ({ status: 404 }), /status 404: Refused/],
  ])('when it %s', async ([, override, text], { expect }) => {
    await using api = await gitHubApi({ override })
    const result = await run(api)
    expect(result).toMatchObject({ code: 0, stderr: '', outputs: { status: 'running' } })
    expect(warnings(result.stdout)).toEqual([expect.stringMatching(text)])
  })

  test('when it is unavailable', async ({ expect }) => {
    const api = await gitHubApi()
    await api[Symbol.asyncDispose]()
    const result = await run(api, { inputs: { environment: 'preview' } })
    expect(result).toMatchObject({ code: 0, outputs: { status: 'running' } })
    expect(warnings(result.stdout)).toEqual([expect.stringMatching(/cannot be reached.*ECONNREFUSED/)])
  })

  test('without a token', async ({ expect }) => {
    await using api = await gitHubApi()
    expect(await run(api, { inputs: { 'github-token': '' } })).toMatchObject({ code: 0 })
    expect(api.requests).toEqual([])
  })
})
