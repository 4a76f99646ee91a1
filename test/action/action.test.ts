import { readFile } from 'node:fs/promises'
import { describe, expect, test } from 'vitest'
import { type ActionRun, runAction } from '../harness/run-action.ts'
import { APP, created, DEPLOYMENT, KEY, PROJECT, page, refusal, type Script, scriptedServer, seen } from './support.ts'

interface Run extends Omit<ActionRun, 'inputs'> {
  readonly inputs?: Readonly<Record<string, string>>
}

/** Runs the action against a server that follows the script. */
async function run(script: Script, { inputs = {}, ...rest }: Run = {}) {
  await using server = await scriptedServer(script)
  const given = { 'api-url': server.url, 'api-key': KEY, 'project-id': PROJECT, ...inputs }
  const result = await runAction({ inputs: given, ...rest })
  return { ...result, errors: errorsIn(result.stdout), requests: server.requests, url: server.url }
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
      outputs: { 'deployment-id': DEPLOYMENT, url: APP, status: 'running' },
    })
    expect(result.stdout).toMatch(/^building · \d+ s$/m)
    expect(result.stdout).toMatch(/^running · \d+ s$/m)
    expect(result.stdout.match(/^building · /gm)).toHaveLength(1)
    expect(result.summary).toContain('Deployed shop')
    expect(result.summary).toContain(`| Address | ${APP} |`)
  })

  test('is asked for with the key, the workflow’s source and the variables', async ({ expect, signal }) => {
    const { requests } = await run(running, { signal, inputs: { 'env-vars': 'A=1\nB="x\ny"' } })
    const [create, poll] = requests
    expect(create).toMatchObject({
      method: 'POST',
      path: `/v1/projects/${PROJECT}/deployments`,
      headers: { authorization: `Bearer ${KEY}` },
    })
    expect(JSON.parse(create?.body ?? '')).toEqual({
      name: 'shop',
      git_url: 'https://github.com/acme/shop.git',
      branch: 'main',
      env_vars: { A: '1', B: 'x\ny' },
    })
    expect(poll).toMatchObject({ method: 'GET', path: `/v1/projects/${PROJECT}/deployments/${DEPLOYMENT}` })
  })

  test('takes the branch that a pull request comes from', async ({ expect, signal }) => {
    const env = { GITHUB_REF: 'refs/pull/7/merge', GITHUB_REF_NAME: '7/merge', GITHUB_HEAD_REF: 'fix' }
    const { requests } = await run(running, { signal, env })
    expect(JSON.parse(requests[0]?.body ?? '')).toMatchObject({ branch: 'fix' })
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
    expect(result.stdout.match(/cannot be asked/g)).toHaveLength(1)
    expect(result.stdout.match(/answers again/g)).toHaveLength(1)
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
    expect(result.summary).toContain('Not deployed: shop')
    expect(result.summary).toContain('<pre>error: no such file</pre>')
  })

  test('cannot speak to the runner or change the summary through its output', async ({ expect, signal }) => {
    const message = 'first ##[add-mask]a\r::set-env name=A::b\n::add-mask::c\n##[error]d\n  ::error::e\n</pre><script>'
    const result = await run({ create: created, polls: [seen('failed', { ...failure, message })] }, { signal })
    expect(commandsIn(result.stdout)).toEqual([
      `::add-mask::${KEY}`,
      expect.stringMatching(/^::error::dep_\w+ failed in the stage build \(build_failed\): first ##\[add-mask]a$/),
    ])
    expect(result.summary).toContain('&lt;/pre&gt;&lt;script&gt;')
  })

  test('fails the run when a newer one took over', async ({ expect, signal }) => {
    const result = await run({ create: created, polls: [seen('superseded')] }, { signal })
    expect(result).toMatchObject({ code: 1, outputs: { status: 'superseded' } })
    expect(result.errors).toEqual([expect.stringContaining('A newer deployment of shop took over')])
  })

  test('fails the run in a state that only later servers know', async ({ expect, signal }) => {
    const result = await run({ create: created, polls: [seen('canceled')] }, { signal })
    expect(result).toMatchObject({ code: 1, outputs: { status: 'canceled' } })
    expect(result.errors).toEqual([expect.stringContaining('ended as canceled')])
  })

  test('fails the run after the time limit', async ({ expect, signal }) => {
    const result = await run({ create: created, polls: [seen('building')] }, { signal, inputs: { timeout: '5' } })
    expect(result).toMatchObject({ code: 1, outputs: { 'deployment-id': DEPLOYMENT, url: APP, status: 'building' } })
    expect(result.errors).toEqual([expect.stringContaining('raise the input `timeout`')])
  })

  test('fails the run when the server stays silent', async ({ expect, signal }) => {
    const result = await run({ create: created, polls: ['hang'] }, { signal, inputs: { timeout: '5' } })
    expect(result).toMatchObject({ code: 1, outputs: { 'deployment-id': DEPLOYMENT, status: 'building' } })
    expect(result.errors).toEqual([expect.stringMatching(/could not be asked last.*`timeout`/)])
  })

  test('fails the run when it can no longer be read', async ({ expect, signal }) => {
    const polls = [refusal(401, 'unauthorized', 'x')]
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
    expect(result.requests).toHaveLength(1)
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
    expect(result.errors).toEqual([expect.stringMatching(/`api-url`: .* did not answer in time/)])
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
    const env = { GITHUB_REPOSITORY: undefined, GITHUB_REF: undefined, GITHUB_REF_NAME: undefined }
    const result = await runAction({ inputs: {}, env, signal })
    expect(result.code).toBe(1)
    expect(errorsIn(result.stdout)).toHaveLength(6)
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
  test.for(['SIGINT', 'SIGTERM'] as const)(
    'by %s says that the deployment goes on',
    async (name, { expect, signal }) => {
      const result = await run(
        { create: created, polls: [seen('building')] },
        { signal, onLine: (line, kill) => line.startsWith('building') && kill(name) },
      )
      expect(result).toMatchObject({ code: 1, outputs: { 'deployment-id': DEPLOYMENT, url: APP, status: 'building' } })
      expect(result.errors).toEqual([`The run was cancelled. The deployment ${DEPLOYMENT} goes on at the server.`])
    },
  )

  test('while it creates the deployment says that this may go on', async ({ expect, signal }) => {
    const result = await run(
      { create: 'hang' },
      { signal, onLine: (line, kill) => line.startsWith('Deploying') && kill('SIGINT') },
    )
    expect(result).toMatchObject({ code: 1, outputs: { status: 'failed' } })
    expect(result.errors).toEqual([expect.stringContaining('cancelled while the deployment was being created')])
  })
})

test('the bundle holds no path of the machine that made it and nothing of the server’s validation', async () => {
  const bundle = await readFile(new URL('../../action/dist/index.js', import.meta.url), 'utf8')
  const root = new URL('../../', import.meta.url).pathname
  expect(bundle).not.toContain(root)
  expect(bundle).not.toMatch(/\bzod\b/)
})
