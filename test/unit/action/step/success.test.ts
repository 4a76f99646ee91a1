import { describe, test } from 'vitest'
import { HEAD, pullRequest, pullRequestEnvironment } from '../../../harness/action/payloads.ts'
import { run, running } from '../../../harness/action/step/run.ts'
import {
  type Answer,
  APP,
  created,
  DEPLOYMENT,
  KEY,
  PROJECT,
  page,
  refusal,
  seen,
} from '../../../harness/action/support.ts'
import { pushEnvironment } from '../../../harness/run-action.ts'

describe.concurrent('a deployment that succeeds', () => {
  test('gives its id, address and status, and a summary', async ({ expect, signal }) => {
    const result = await run({ create: created, polls: [seen('building'), seen('running')] }, { signal })
    expect(result).toMatchObject({
      code: 0,
      stderr: '',
      outputs: {
        'deployment-id': DEPLOYMENT,
        url: APP,
        status: 'running',
        commit: pushEnvironment.GITHUB_SHA,
        'created-at': '2025-10-09T08:53:20.000Z',
        'duration-seconds': expect.stringMatching(/^\d+$/),
        skipped: 'false',
      },
    })
    expect(result.stdout).toMatch(/^building · \d+ s$/m)
    expect(result.stdout).toMatch(/^running · \d+ s$/m)
    expect(result.stdout.match(/^building · /gm)).toHaveLength(1)
    expect(result.summary).toContain('Deployed shop')
    expect(result.summary).toContain(`<th>Address</th><td><a href="${APP}">${APP}</a></td>`)
    const link = `${result.url}/projects/${PROJECT}/deployments/${DEPLOYMENT}`
    expect(result.summary).toContain(`<a href="${link}">${DEPLOYMENT}</a>`)
    expect(result.stdout).toContain(`\nSee ${link}\n`)
  })

  test('has a summary with the server’s steps and their times', async ({ expect, signal }) => {
    const at = (ms: number) => new Date(1_760_000_000_000 + ms).toISOString()
    const steps = [
      { name: 'queued', started_at: at(0), finished_at: at(200) },
      { name: 'fetch', started_at: at(200), finished_at: at(1_500) },
      { name: 'build', started_at: at(1_500), finished_at: at(66_500) },
      { name: '<b>later</b>', started_at: at(66_500), finished_at: at(67_000) },
      { name: 'switch', started_at: 'no time', finished_at: null },
      null,
      'text',
    ]
    const answer = seen('running')
    const told =
      typeof answer === 'object' && 'body' in answer ? { ...answer, body: { ...Object(answer.body), steps } } : answer
    const { code, summary } = await run({ create: created, polls: [told] }, { signal })
    expect(code).toBe(0)
    for (const row of [
      'Queued</td><td>0.2 s',
      'Fetch</td><td>1.3 s',
      'Build</td><td>1 min 5 s',
      'Whole step</td><td>',
    ]) {
      expect(summary).toContain(row)
    }
    expect(summary).not.toMatch(/later|Switch|Waited/)
  })

  test('is created with the key, the workflow’s source and the variables', async ({ expect, signal }) => {
    const given = { 'env-vars': 'A=1\nB="x\ny"', 'git-token': 'ghs_token' }
    const { requests } = await run(running, { signal, inputs: given })
    const [create] = requests
    const poll = requests.at(-1)
    expect(create).toMatchObject({
      method: 'POST',
      path: `/v1/projects/${PROJECT}/deployments`,
      headers: { authorization: `Bearer ${KEY}` },
    })
    expect(JSON.parse(create?.body ?? '')).toEqual({
      name: 'shop',
      git_url: 'https://github.com/acme/shop.git',
      branch: 'main',
      commit: pushEnvironment.GITHUB_SHA,
      git_token: 'ghs_token',
      env_vars: { A: '1', B: 'x\ny' },
    })
    expect(poll).toMatchObject({ method: 'GET', path: `/v1/projects/${PROJECT}/deployments/${DEPLOYMENT}` })
  })

  test('is created from another deployment, without a commit', async ({ expect, signal }) => {
    const { requests, stdout, code } = await run(running, { signal, inputs: { 'from-deployment': 'dep_tested' } })
    expect(code).toBe(0)
    expect(JSON.parse(requests[0]?.body ?? '')).toEqual({
      name: 'shop',
      from_deployment_id: 'dep_tested',
      env_vars: {},
    })
    expect(stdout).toContain('Deploying shop: the release of dep_tested')
  })

  test('is created from an image, without a commit', async ({ expect, signal }) => {
    const image = 'registry.example/shop:1'
    const { requests, stdout, code } = await run(running, { signal, inputs: { image } })
    expect(code).toBe(0)
    expect(JSON.parse(requests[0]?.body ?? '')).toEqual({ name: 'shop', image, env_vars: {} })
    expect(stdout).toContain('Deploying shop: the image registry.example/shop:1')
  })

  test('takes the branch and the commit of a pull request, and a name for it', async ({ expect, signal }) => {
    const { requests } = await run(running, { signal, env: pullRequestEnvironment, payload: pullRequest('opened') })
    expect(JSON.parse(requests[0]?.body ?? '')).toMatchObject({ name: 'shop-pr-12', branch: 'fix', commit: HEAD })
  })

  test('is not waited for when `wait` is false', async ({ expect, signal }) => {
    const result = await run({ create: created }, { signal, inputs: { wait: 'false' } })
    expect(result).toMatchObject({
      code: 0,
      outputs: { 'deployment-id': DEPLOYMENT, url: APP, status: 'building' },
    })
    expect(result.requests).toHaveLength(1)
  })

  test('survives server errors, broken connections and rate limits', async ({ expect, signal }) => {
    const trouble = [
      refusal(500, 'server_error', 'x'),
      page(502),
      'drop',
      refusal(429, 'rate_limit_exceeded', 'x'),
    ] as const
    const result = await run({ create: created, polls: [...trouble, seen('running')] }, { signal })
    expect(result).toMatchObject({ code: 0, outputs: { status: 'running' } })
    expect(result.count('polls')).toBe(5)
  })

  test('reports when its state is unreadable for long, and when it is readable again', async ({ expect, signal }) => {
    const trouble = Array<Answer>(7).fill(refusal(500, 'server_error', 'x'))
    const result = await run({ create: created, polls: [...trouble, seen('running')] }, { signal })
    expect(result).toMatchObject({ code: 0, outputs: { status: 'running' } })
    expect(result.stdout.match(/does not answer \(status 500\); trying again/g)).toHaveLength(1)
    expect(result.stdout.match(/answers again/g)).toHaveLength(1)
  })

  test('is created with the same key in all retries', async ({ expect, signal }) => {
    const create = [page(502), 'drop', refusal(429, 'rate_limit_exceeded', 'x'), created] as const
    const env = { GITHUB_RUN_ID: '7', GITHUB_RUN_ATTEMPT: '1', GITHUB_JOB: 'deploy', GITHUB_ACTION: '__self' }
    const keysOf = async (more: Readonly<Record<string, string>>, inputs = {}) => {
      const { requests } = await run({ ...running, create }, { signal, env: { ...env, ...more }, inputs })
      const keys = requests.flatMap(({ method, headers }) => (method === 'POST' ? [headers['idempotency-key']] : []))
      expect(keys).toHaveLength(4)
      expect(new Set(keys).size).toBe(1)
      return String(keys[0])
    }
    const key = await keysOf({})
    expect(key).toMatch(/^action-[0-9a-f]{64}$/)
    expect(await keysOf({})).toBe(key)
    const others = [
      await keysOf({ GITHUB_RUN_ATTEMPT: '2' }),
      await keysOf({ GITHUB_ACTION: '__self_2' }),
      await keysOf({}, { name: 'other' }),
      // Another job of a matrix.
      await keysOf({}, { branch: 'other', commit: '' }),
    ]
    expect(new Set([key, ...others]).size).toBe(5)
  })

  test.for([{ GITHUB_STEP_SUMMARY: undefined }, { GITHUB_STEP_SUMMARY: '/nowhere/summary' }])(
    'needs no job summary: %j',
    async (env, { expect, signal }) => {
      expect(await run(running, { signal, env })).toMatchObject({
        code: 0,
        summary: '',
        outputs: { status: 'running' },
      })
    },
  )
})
