import { readFile } from 'node:fs/promises'
import { describe, expect, test } from 'vitest'
import { type ActionRun, pushEnvironment, runAction } from '../harness/run-action.ts'
import { HEAD, mergeGroup, pullRequest, pullRequestEnvironment } from './payloads.ts'
import {
  type Answer,
  APP,
  created,
  DEPLOYMENT,
  KEY,
  logOf,
  PROJECT,
  page,
  refusal,
  type Script,
  scriptedServer,
  seen,
} from './support.ts'

interface Run extends Omit<ActionRun, 'inputs'> {
  readonly inputs?: Readonly<Record<string, string>>
}

/** Runs the action against a server that follows the script. */
async function run(script: Script, { inputs = {}, ...rest }: Run = {}) {
  await using server = await scriptedServer(script)
  const given = { 'api-url': server.url, 'api-key': KEY, 'project-id': PROJECT, ...inputs }
  const result = await runAction({ inputs: given, ...rest })
  const { requests, url, count } = server
  return { ...result, errors: errorsIn(result.stdout), requests, url, count }
}

/** The messages of the error annotations, as the runner decodes them. */
function errorsIn(stdout: string): readonly string[] {
  return [...stdout.matchAll(/^::error::(.*)$/gm)].map(([, message = '']) =>
    message.replaceAll('%0A', '\n').replaceAll('%0D', '\r').replaceAll('%25', '%'),
  )
}

/** What the runner would carry out: commands outside of a stretch where they are stopped. */
function commandsIn(stdout: string): readonly string[] {
  let resume: string | undefined
  const commands: string[] = []
  for (const line of stdout.split(/\r\n|\r|\n/)) {
    if (resume !== undefined) {
      if (line === resume) resume = undefined
      continue
    }
    const stop = /^::stop-commands::(.+)$/.exec(line)
    if (stop) resume = `::${stop[1]}::`
    else if (line.trimStart().startsWith('::') || line.includes('##[')) commands.push(line)
  }
  return commands
}

const running: Script = { create: created, polls: [seen('running')] }

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
    expect(result.summary).toContain(`| Address | ${APP} |`)
    const link = `${result.url}/projects/${PROJECT}/deployments/${DEPLOYMENT}`
    expect(result.summary).toContain(`<a href="${link}">${DEPLOYMENT}</a>`)
    expect(result.stdout).toContain(`\nSee ${link}\n`)
  })

  test('is asked for with the key, the workflow’s source and the variables', async ({ expect, signal }) => {
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

  test('takes the branch and the commit that a pull request comes from, and a name for it', async ({
    expect,
    signal,
  }) => {
    const { requests } = await run(running, { signal, env: pullRequestEnvironment, payload: pullRequest('opened') })
    expect(JSON.parse(requests[0]?.body ?? '')).toMatchObject({ name: 'shop-pr-12', branch: 'fix', commit: HEAD })
  })

  test('is not waited for when that is not wanted', async ({ expect, signal }) => {
    const result = await run({ create: created }, { signal, inputs: { wait: 'false' } })
    expect(result).toMatchObject({
      code: 0,
      outputs: { 'deployment-id': DEPLOYMENT, url: APP, status: 'building' },
    })
    expect(result.requests).toHaveLength(1)
  })

  test('survives a server that fails, breaks off and is in a hurry meanwhile', async ({ expect, signal }) => {
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

  test('says when the server cannot be asked for long, and when it can again', async ({ expect, signal }) => {
    const trouble = Array<Answer>(7).fill(refusal(500, 'server_error', 'x'))
    const result = await run({ create: created, polls: [...trouble, seen('running')] }, { signal })
    expect(result).toMatchObject({ code: 0, outputs: { status: 'running' } })
    expect(result.stdout.match(/cannot be asked/g)).toHaveLength(1)
    expect(result.stdout.match(/answers again/g)).toHaveLength(1)
  })

  test('is created with the same key however often that is tried', async ({ expect, signal }) => {
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
    ]
    expect(new Set([key, ...others]).size).toBe(4)
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

describe.concurrent('a deployment that does not run', () => {
  const failure = {
    stage: 'build',
    code: 'build_failed',
    message: 'The build failed. Its last output:\nerror: no such file',
  }

  test('fails the run with the stage, the code and the output', async ({ expect, signal }) => {
    const result = await run({ create: created, polls: [seen('failed', failure)] }, { signal })
    expect(result).toMatchObject({ code: 1, outputs: { 'deployment-id': DEPLOYMENT, url: APP, status: 'failed' } })
    expect(result.errors).toEqual([
      `${DEPLOYMENT} failed in the stage build (build_failed): The build failed. Its last output:`,
    ])
    expect(result.stdout).toContain('\nerror: no such file\n')
    expect(result.stdout).toContain(`\nSee ${result.url}/projects/${PROJECT}/deployments/${DEPLOYMENT}\n`)
    expect(result.summary).toContain('Not deployed: shop')
    expect(result.summary).toContain('<pre>error: no such file</pre>')
  })

  test('cannot speak to the runner or change the summary through its output', async ({ expect, signal }) => {
    const message = 'first ##[add-mask]a\r::set-env name=A::b\n::add-mask::c\n##[error]d\n  ::error::e\n</pre><script>'
    const result = await run({ create: created, polls: [seen('failed', { ...failure, message })] }, { signal })
    expect(commandsIn(result.stdout)).toEqual([
      `::add-mask::${KEY}`,
      '::group::The end of the log',
      '::endgroup::',
      expect.stringMatching(/^::error::dep_\w+ failed in the stage build \(build_failed\): first ## \[add-mask]a$/),
    ])
    expect(result.summary).toContain('&lt;/pre&gt;&lt;script&gt;')
  })

  test('fails the run when a newer one took over', async ({ expect, signal }) => {
    const result = await run({ create: created, polls: [seen('superseded')] }, { signal })
    expect(result).toMatchObject({ code: 1, outputs: { status: 'superseded' } })
    expect(result.errors).toEqual([expect.stringContaining('A newer deployment of shop took over')])
  })

  test.for(['canceled', 'stopped', 'put-away'])('fails the run in the state %s', async (status, { expect, signal }) => {
    const result = await run({ create: created, polls: [seen(status)] }, { signal })
    expect(result).toMatchObject({ code: 1, outputs: { status } })
    expect(result.errors).toEqual([expect.stringContaining(`ended as ${status}`)])
  })

  test('fails the run when it was deleted', async ({ expect, signal }) => {
    const result = await run({ create: created, polls: refusal(404, 'not_found', 'x') }, { signal })
    expect(result).toMatchObject({ code: 1, outputs: { 'deployment-id': DEPLOYMENT, status: 'deleted' } })
    expect(result.errors).toEqual([`${DEPLOYMENT} was deleted while it was waited for.`])
  })

  test('fails the run when it runs another commit', async ({ expect, signal }) => {
    const result = await run({ create: created, polls: [seen('running', null, HEAD)] }, { signal })
    expect(result).toMatchObject({ code: 1, outputs: { status: 'running', commit: HEAD } })
    expect(result.errors).toEqual([expect.stringContaining(`is of the commit ${HEAD}`)])
  })

  test('is cancelled when another commit is being built', async ({ expect, signal }) => {
    const polls = [seen('building', null, HEAD)]
    const result = await run({ create: created, polls, cancel: seen('canceled', null, HEAD) }, { signal })
    expect(result).toMatchObject({ code: 1, outputs: { status: 'canceled' } })
  })

  test('shows the last lines of its log', async ({ expect, signal }) => {
    const lines = Array.from({ length: 40 }, (_, at) => `line ${at}`)
    const tail: Answer = { status: 200, body: `${lines.join('\n')}\n`, headers: { 'content-type': 'text/plain' } }
    const result = await run({ create: created, polls: [seen('failed', failure)], tail }, { signal })
    expect(result.summary).toContain(`<pre>${lines.slice(-30).join('\n')}</pre>`)
    expect(result.stdout).toContain(`\n${lines.slice(-30).join('\n')}\n`)
    expect(result.stdout).not.toContain('line 9\n')
  })

  test('is cancelled at the server after the time limit', async ({ expect, signal }) => {
    const script: Script = { create: created, polls: seen('building'), cancel: seen('canceled') }
    const result = await run(script, { signal, inputs: { timeout: '3' } })
    expect(result).toMatchObject({ code: 1, outputs: { 'deployment-id': DEPLOYMENT, url: APP, status: 'canceled' } })
    expect(result.errors).toEqual([
      expect.stringMatching(/after 3 s.*was cancelled at the server.*raise the input `timeout`/),
    ])
    expect(result.count('cancel')).toBe(1)
  })

  test('that runs at the last moment is a success', async ({ expect, signal }) => {
    const cancel = refusal(400, 'invalid_request', 'This deployment is running and cannot be canceled.')
    const script: Script = { create: created, polls: seen('running'), cancel, log: 'hang' }
    expect(await run(script, { signal, inputs: { timeout: '3' } })).toMatchObject({
      code: 0,
      outputs: { status: 'running' },
    })
  })

  test('fails the run when the server stays silent', async ({ expect, signal }) => {
    const script: Script = { create: created, polls: 'hang', cancel: 'hang' }
    const result = await run(script, { signal, inputs: { timeout: '2' } })
    expect(result).toMatchObject({ code: 1, outputs: { 'deployment-id': DEPLOYMENT, status: 'building' } })
    expect(result.errors).toEqual([expect.stringMatching(/could not be cancelled.*`timeout`/)])
  })

  test('fails the run when it can no longer be read', async ({ expect, signal }) => {
    const polls = refusal(401, 'unauthorized', 'x')
    const result = await run({ create: created, polls }, { signal })
    expect(result).toMatchObject({ code: 1, outputs: { 'deployment-id': DEPLOYMENT, status: 'building' } })
    expect(result.errors).toEqual([expect.stringContaining('cannot be read'), expect.stringContaining('`api-key`')])
  })
})

describe.concurrent('a creation that is refused', () => {
  const refused: readonly (readonly [string, Script['create'], readonly string[]])[] = [
    ['by the key', refusal(401, 'unauthorized', 'x'), ['`api-key`: ']],
    ['by the key’s permissions', refusal(403, 'forbidden', 'It lacks deployments:write.'), ['`api-key`: ']],
    ['by the project', refusal(404, 'not_found', 'x'), ['`project-id`: ']],
    ['by the rate limit', refusal(429, 'rate_limit_exceeded', 'x'), ['later']],
    ['by a failure of the server', refusal(500, 'server_error', 'See its log.'), ['See its log. (request req-1)']],
    ['by a proxy', page(502), ['`api-url`: ']],
    ['by a redirect', page(301, { location: 'https://example.com/' }), ['`api-url`: ']],
    ['by another server', page(404), ['`api-url`: ']],
    ['by a page that looks like success', page(200), ['`api-url`: ']],
    ['by JSON of somebody else', { status: 200, body: { id: 1 } }, ['`api-url`: ']],
    ['by an empty answer', { status: 204, body: '' }, ['`api-url`: ']],
    ['by JSON null', { status: 201, body: null }, ['`api-url`: ']],
    ['by a broken connection', 'drop', ['`api-url`: ']],
    [
      'by fields',
      refusal(400, 'invalid_request', 'x', {
        field: 'git_url',
        errors: [
          { field: 'git_url', message: 'must be an address' },
          { field: 'env_vars.PORT', message: 'is set by the platform' },
          { field: 'plan', message: 'is too small' },
        ],
      }),
      ['`git-url`: must be an address', '`env-vars`: PORT is set by the platform', '`plan`: is too small'],
    ],
  ]

  test.for(refused)('%s names what to look at', async ([, create, messages], { expect, signal }) => {
    const result = await run({ create }, { signal })
    expect(result).toMatchObject({ code: 1, stderr: '', outputs: { status: 'failed' } })
    expect(result.outputs).not.toHaveProperty('deployment-id')
    expect(result.errors).toEqual(messages.map((message) => expect.stringContaining(message)))
    expect(result.summary).toContain('Not deployed: shop')
  })

  test('of an unknown shape is not taken for Fairlead', async ({ expect, signal }) => {
    const result = await run({ create: refusal(404, 'not_found', 'x', null) }, { signal })
    expect(result).toMatchObject({ code: 1, stderr: '' })
    expect(result.errors).toEqual([expect.stringContaining('`api-url`')])
  })

  test('or an output that cannot be written fails the run without a stack trace', async ({ expect, signal }) => {
    const create = refusal(404, 'not_found', 'x')
    const result = await run({ create }, { signal, env: { GITHUB_OUTPUT: '/nowhere/output' } })
    expect(result).toMatchObject({ code: 1, stderr: '' })
    expect(result.errors).toEqual([expect.stringMatching('The action broke off: .*/nowhere/output')])
  })

  test('by silence ends with the time limit', async ({ expect, signal }) => {
    const result = await run({ create: 'hang' }, { signal, inputs: { timeout: '1' } })
    expect(result).toMatchObject({ code: 1, outputs: { status: 'failed' } })
    expect(result.errors).toEqual([expect.stringMatching(/`api-url`: .* did not answer in time.*accepted/)])
  })

  test('by a port where nothing listens names the address', async ({ expect, signal }) => {
    const server = await scriptedServer(running)
    await server[Symbol.asyncDispose]()
    const result = await run(running, { signal, inputs: { 'api-url': server.url } })
    expect(result.code).toBe(1)
    expect(result.errors).toEqual([expect.stringMatching(/`api-url`: .*ECONNREFUSED/)])
  })
})

describe.concurrent('inputs that are wrong', () => {
  test('are reported together, before anything is sent', async ({ expect, signal }) => {
    const inputs = { 'project-id': '', wait: 'perhaps', timeout: 'soon', 'env-vars': 'A=1\nhunter2hunter2' }
    const result = await run(running, { signal, inputs })
    expect(result).toMatchObject({ code: 1, outputs: { status: 'failed' }, requests: [] })
    expect(result.errors.map((message) => message.split(':')[0])).toEqual([
      '`project-id`',
      '`env-vars`',
      '`wait`',
      '`timeout`',
    ])
    expect(result.stdout).not.toContain('hunter2hunter2')
  })

  test('are found in a run without any', async ({ expect, signal }) => {
    const env = { GITHUB_REPOSITORY: undefined }
    const result = await runAction({ inputs: {}, env, signal })
    expect(result.code).toBe(1)
    expect(errorsIn(result.stdout)).toHaveLength(5)
  })
})

describe.concurrent('secrets', () => {
  test('are hidden: the key first, long values once the address is known', async ({ expect, signal }) => {
    const inputs = { 'env-vars': `TOKEN=hunter2hunter2\nDEBUG=true\nURL=${APP}\nPEM="-----BEGIN-----\nMIIEvQ"` }
    const { stdout } = await run(running, { signal, inputs })
    expect(stdout.startsWith(`::add-mask::${KEY}\n`)).toBe(true)
    expect(commandsIn(stdout)).toEqual([KEY, 'hunter2hunter2', '-----BEGIN-----'].map((text) => `::add-mask::${text}`))
    expect(stdout.match(/hunter2hunter2/g)).toHaveLength(1)
  })

  test('are hidden before a refusal is shown, and a wrong key as well', async ({ expect, signal }) => {
    const create = refusal(400, 'invalid_request', 'no hunter2hunter2')
    const inputs = { 'env-vars': 'TOKEN=hunter2hunter2' }
    const refused = await run({ create }, { signal, inputs })
    expect(commandsIn(refused.stdout).map((line) => line.split('::')[1])).toEqual(['add-mask', 'add-mask', 'error'])
    const { stdout } = await run({ create }, { signal, inputs: { 'api-key': 'two words' } })
    expect(stdout.startsWith('::add-mask::two words\n')).toBe(true)
    expect(stdout.match(/two words/g)).toHaveLength(1)
  })
})

describe.concurrent('a run that is cancelled', () => {
  test.for(['SIGINT', 'SIGTERM'] as const)('by %s cancels the deployment', async (name, { expect, signal }) => {
    const result = await run(
      { create: created, polls: seen('building'), cancel: seen('canceled') },
      { signal, onLine: (line, kill) => line.startsWith('building') && kill(name) },
    )
    expect(result).toMatchObject({ code: 1, outputs: { 'deployment-id': DEPLOYMENT, url: APP, status: 'canceled' } })
    expect(result.errors).toEqual([`The run was cancelled. The deployment ${DEPLOYMENT} was cancelled at the server.`])
    const [cancel] = result.requests.filter(({ path }) => path?.endsWith(`/deployments/${DEPLOYMENT}/cancel`))
    expect(cancel).toMatchObject({ method: 'POST', headers: { authorization: `Bearer ${KEY}` } })
  })

  test('is within the time of the runner, whatever the server does', async ({ expect, signal }) => {
    let cancelledAt = Number.NaN
    const onLine = (line: string, kill: (signal: NodeJS.Signals) => void) => {
      if (!line.startsWith('building')) return
      cancelledAt = performance.now()
      kill('SIGINT')
    }
    const script: Script = { create: created, polls: 'hang', log: 'hang', cancel: 'hang' }
    const result = await run(script, { signal, onLine })
    expect(result).toMatchObject({ code: 1, outputs: { status: 'building' } })
    expect(result.errors).toEqual([expect.stringContaining('could not be cancelled')])
    expect(performance.now() - cancelledAt).toBeLessThan(7_500)
  })

  test('while it creates the deployment says that this may go on', async ({ expect, signal }) => {
    const result = await run(
      { create: 'hang' },
      { signal, onLine: (line, kill) => line.startsWith('Deploying') && kill('SIGINT') },
    )
    expect(result).toMatchObject({ code: 1, outputs: { status: 'failed' } })
    expect(result.errors).toEqual([expect.stringContaining('cancelled while the deployment was being created')])
  })

  test('by SIGKILL is cleaned up behind', async ({ expect, signal }) => {
    const script: Script = { create: created, polls: 'hang', log: 'hang', cancel: seen('canceled') }
    const killed = await run(script, {
      signal,
      onLine: (line, kill) => line.startsWith('building') && kill('SIGKILL'),
    })
    expect(killed).toMatchObject({ code: null, state: { STATE_deployment: DEPLOYMENT } })
    expect(killed.count('cancel')).toBe(0)

    const post = await run(script, { signal, env: killed.state })
    expect(post).toMatchObject({ code: 0, stderr: '', outputs: {} })
    expect(post.stdout).toBe(`The step was killed; its deployment ${DEPLOYMENT} is canceled.\n`)
    expect(post.requests.map(({ path }) => path)).toEqual([`/v1/projects/${PROJECT}/deployments/${DEPLOYMENT}/cancel`])
  })

  test.for<[string, Script, Readonly<Record<string, string>>]>([
    ['that has ended', running, {}],
    ['that was not waited for', running, { wait: 'false' }],
    ['that was refused', { create: refusal(404, 'not_found', 'x') }, {}],
    ['whose inputs are wrong', running, { 'api-url': '' }],
  ])('or rather one %s has nothing left to clean up', async ([, script, inputs], { expect, signal }) => {
    const { state } = await run(script, { signal, inputs })
    const post = await run(script, { signal, inputs, env: state })
    expect(post).toMatchObject({ code: 0, stdout: '', stderr: '', requests: [] })
  })
})

describe.concurrent('the build’s log', () => {
  test('is shown in a group as it grows, and costs one request', async ({ expect, signal }) => {
    const log = logOf(['installing', '::error::no', '##[error]no', 'built'])
    const result = await run({ create: created, log, polls: seen('running') }, { signal })
    expect(result.code).toBe(0)
    expect(result.stdout).toMatch(
      /::group::Build log\n::stop-commands::(.+)\ninstalling\n[\s\S]*built\n::\1::\n::endgroup::/,
    )
    expect(commandsIn(result.stdout)).toEqual([`::add-mask::${KEY}`, '::group::Build log', '::endgroup::'])
    expect(result.requests.map(({ method }) => method)).toEqual(['POST', 'GET', 'GET'])
  })

  test('is taken up where it broke off', async ({ expect, signal }) => {
    const log = [logOf(['one', 'two'], 'drop'), 'drop', logOf(['three'], 'end', 3)] as const
    const result = await run(
      { create: created, log, polls: [seen('building'), seen('building'), seen('running')] },
      { signal },
    )
    expect(result.code).toBe(0)
    const lines = result.stdout.split('\n').filter((line) => /^(one|two|three)$/.test(line))
    expect(lines).toEqual(['one', 'two', 'three'])
    const ids = result.requests.flatMap(({ path, headers }) =>
      path?.includes('/logs') ? [headers['last-event-id']] : [],
    )
    expect(ids).toEqual([undefined, '2', '2'])
  })

  test.for<[string, Answer]>([
    ['is refused', refusal(403, 'forbidden', 'x')],
    ['is none', { status: 200, body: 'x', headers: { 'content-type': 'text/plain' } }],
    ['is a page', page(200)],
  ])('that %s is asked for once, and the state is looked at', async ([, log], { expect, signal }) => {
    const polls = [seen('building'), seen('building'), seen('running')]
    const result = await run({ create: created, log, polls }, { signal })
    expect(result).toMatchObject({ code: 0, outputs: { status: 'running' } })
    expect(result.count('log')).toBe(1)
  })

  test('that is garbage breaks nothing', async ({ expect, signal }) => {
    const events = 'data\n\ndata: {\n\ndata: null\n\ndata: 1\n\ndata: {"text":1}\n\n\u0000\n: \nevent: x\n\n'
    const result = await run({ create: created, log: { events, after: 'end' }, polls: seen('running') }, { signal })
    expect(result).toMatchObject({ code: 0, stderr: '' })
  })
})

describe.concurrent('a run with nothing to deploy', () => {
  test('says so and succeeds', async ({ expect, signal }) => {
    const env = { GITHUB_EVENT_NAME: 'merge_group' }
    const result = await run(running, { signal, env, payload: mergeGroup })
    expect(result).toMatchObject({ code: 0, outputs: { skipped: 'true', status: 'skipped' }, requests: [] })
    expect(result.stdout).toMatch(/^::notice::A merge group/m)
  })

  test('for a fork’s pull request needs no inputs', async ({ expect, signal }) => {
    const result = await run(running, {
      signal,
      env: pullRequestEnvironment,
      payload: pullRequest('opened', 'fork'),
      inputs: { 'api-key': '' },
    })
    expect(result).toMatchObject({ code: 0, outputs: { skipped: 'true' }, requests: [] })
  })

  test('but a dry run shows the request without its secrets', async ({ expect, signal }) => {
    const inputs = { 'dry-run': 'true', 'env-vars': 'TOKEN=hunter2hunter2', 'git-token': 'ghs_hunter2' }
    const { stdout, requests, ...result } = await run(running, { signal, inputs })
    expect(result).toMatchObject({ code: 0, outputs: { skipped: 'true', status: 'skipped' } })
    expect(requests).toEqual([])
    expect(stdout.replace(/^::add-mask::.*\n/gm, '')).not.toMatch(/hunter2|fl_/)
    expect(stdout).toContain(`POST ${result.url}/v1/projects/${PROJECT}/deployments\nAuthorization: Bearer ***\n`)
    expect(stdout).toContain('"TOKEN": "***"')
  })
})

test('the bundle holds no path of the machine that made it and nothing of the server’s validation', async () => {
  const bundle = await readFile(new URL('../../action/dist/index.js', import.meta.url), 'utf8')
  const root = new URL('../../', import.meta.url).pathname
  expect(bundle).not.toContain(root)
  expect(bundle).not.toMatch(/\bzod\b/)
})
