import { describe, test } from 'vitest'
import { errorsIn, run, running } from '../../../harness/action/step/run.ts'
import { created, KEY, PROJECT, page, refusal, type Script, scriptedServer } from '../../../harness/action/support.ts'
import { freePort } from '../../../harness/ports.ts'
import { runAction } from '../../../harness/run-action.ts'

describe.concurrent('a refused creation', () => {
  const refused: readonly (readonly [string, Script['create'], readonly string[]])[] = [
    ['by the key', refusal(401, 'unauthorized', 'x'), ['`api-key`: ']],
    ['by the key’s permissions', refusal(403, 'forbidden', 'It lacks deployments:write.'), ['`api-key`: ']],
    ['by the project', refusal(404, 'not_found', 'x'), ['`project-id`: ']],
    ['by a redirect', page(301, { location: 'https://example.com/' }), ['`api-url`: ']],
    ['by another server', page(404), ['`api-url`: ']],
    ['by a page that looks like success', page(200), ['`api-url`: ']],
    ['by JSON that is not Fairlead’s', { status: 200, body: { id: 1 } }, ['`api-url`: ']],
    ['by an empty answer', { status: 204, body: '' }, ['`api-url`: ']],
    ['by JSON null', { status: 201, body: null }, ['`api-url`: ']],
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

  test.for(refused)('%s names the input to check', async ([, create, messages], { expect, signal }) => {
    const result = await run({ create }, { signal })
    expect(result).toMatchObject({ code: 1, stderr: '', outputs: { status: 'failed' } })
    expect(result.outputs).not.toHaveProperty('deployment-id')
    expect(result.errors).toEqual(messages.map((message) => expect.stringContaining(message)))
    expect(result.summary).toContain('Not deployed: shop')
  })

  const repeated: readonly (readonly [string, Script['create'], RegExp])[] = [
    ['by the rate limit', refusal(429, 'rate_limit_exceeded', 'x'), /used up its requests.* tried for 3 s.*accepted/],
    ['by a server error', refusal(500, 'server_error', 'See its log.'), /See its log. \(request req-1\).*3 s/],
    ['by a proxy', page(502), /`api-url`: .* status 502.*3 s/],
    ['by a broken connection', 'drop', /`api-url`: .*3 s.*accepted/],
    ['by a silent server', 'hang', /`api-url`: .* did not answer.*3 s.*accepted/],
  ]

  test.for(repeated)(
    '%s is retried until the time limit, and the message names the limit',
    async ([, create, text], context) => {
      const { expect, signal } = context
      const result = await run({ create }, { signal, inputs: { timeout: '3' } })
      expect(result).toMatchObject({ code: 1, outputs: { status: 'failed', 'failure-code': 'timeout' } })
      expect(result.errors).toEqual([expect.stringMatching(text)])
      if (create !== 'hang') expect(result.stdout).toMatch(/^The server does not answer \(.*\); trying again · \d s$/m)
    },
  )

  test('below a path of the address names the address, unless a server answers below it', async ({
    expect,
    signal,
  }) => {
    await using server = await scriptedServer({ create: refusal(404, 'not_found', 'x') })
    const inputs = { 'api-key': KEY, 'project-id': PROJECT }
    const asked = async (path: string) => {
      const { stdout } = await runAction({ inputs: { ...inputs, 'api-url': server.url + path }, signal })
      return errorsIn(stdout)
    }
    expect(await asked('/dashboard')).toEqual([expect.stringContaining('Leave out the path behind the host')])
    expect(await asked('/fairlead')).toEqual([expect.stringContaining('`project-id`')])
  })

  test('of an unknown shape counts as the response of another program', async ({ expect, signal }) => {
    const result = await run({ create: refusal(404, 'not_found', 'x', null) }, { signal })
    expect(result).toMatchObject({ code: 1, stderr: '' })
    expect(result.errors).toEqual([expect.stringContaining('`api-url`')])
  })

  test('or an unwritable output fails the run without a stack trace', async ({ expect, signal }) => {
    const create = refusal(404, 'not_found', 'x')
    const result = await run({ create }, { signal, env: { GITHUB_OUTPUT: '/nowhere/output' } })
    expect(result).toMatchObject({ code: 1, stderr: '' })
    expect(result.errors).toEqual([expect.stringMatching('The action failed unexpectedly: .*/nowhere/output')])
  })

  test('by a port without a listener names the address', async ({ expect, signal }) => {
    const url = `http://127.0.0.1:${await freePort()}`
    const result = await run(running, { signal, inputs: { 'api-url': url, timeout: '3' } })
    expect(result.code).toBe(1)
    expect(result.errors).toEqual([expect.stringMatching(/`api-url`: .*ECONNREFUSED.* tried for 3 s/)])
    expect(result.errors[0]).not.toContain('accepted')
  })

  test('by a server that is temporarily unavailable is retried', async ({ expect, signal }) => {
    const away = Array.from({ length: 12 }, () => refusal(500, 'server_error', 'x'))
    const result = await run({ ...running, create: [...away, created] }, { signal })
    expect(result).toMatchObject({ code: 0, outputs: { status: 'running' } })
    expect(result.stdout).toContain('The server answers again')
  })
})

describe.concurrent('invalid inputs', () => {
  test('are reported together, before the action sends anything', async ({ expect, signal }) => {
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

  test('are found in a run without inputs', async ({ expect, signal }) => {
    const env = { GITHUB_REPOSITORY: undefined }
    const result = await runAction({ inputs: {}, env, signal })
    expect(result.code).toBe(1)
    expect(errorsIn(result.stdout)).toHaveLength(5)
  })
})
