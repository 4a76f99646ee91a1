import { describe, test } from 'vitest'
import { errorsIn, run, running } from '../../../harness/action/step/run.ts'
import { page, refusal, type Script, scriptedServer } from '../../../harness/action/support.ts'
import { runAction } from '../../../harness/run-action.ts'

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
    ['by JSON that is not Fairlead’s', { status: 200, body: { id: 1 } }, ['`api-url`: ']],
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

  test.for(refused)('%s names the input to check', async ([, create, messages], { expect, signal }) => {
    const result = await run({ create }, { signal })
    expect(result).toMatchObject({ code: 1, stderr: '', outputs: { status: 'failed' } })
    expect(result.outputs).not.toHaveProperty('deployment-id')
    expect(result.errors).toEqual(messages.map((message) => expect.stringContaining(message)))
    expect(result.summary).toContain('Not deployed: shop')
  })

  test('of an unknown shape counts as an answer that is not Fairlead’s', async ({ expect, signal }) => {
    const result = await run({ create: refusal(404, 'not_found', 'x', null) }, { signal })
    expect(result).toMatchObject({ code: 1, stderr: '' })
    expect(result.errors).toEqual([expect.stringContaining('`api-url`')])
  })

  test('or an output that cannot be written fails the run without a stack trace', async ({ expect, signal }) => {
    const create = refusal(404, 'not_found', 'x')
    const result = await run({ create }, { signal, env: { GITHUB_OUTPUT: '/nowhere/output' } })
    expect(result).toMatchObject({ code: 1, stderr: '' })
    expect(result.errors).toEqual([expect.stringMatching('The action failed unexpectedly: .*/nowhere/output')])
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

describe.concurrent('invalid inputs', () => {
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
