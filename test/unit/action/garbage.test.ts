import { describe, expect, test } from 'vitest'
import {
  type Answer,
  created,
  DEPLOYMENT,
  KEY,
  PROJECT,
  type Script,
  scriptedServer,
  seen,
} from '../../harness/action/support.ts'
import { pushEnvironment, runAction } from '../../harness/run-action.ts'

/** Runs the action against a server, or a proxy before it, that answers with any shape. */
const run = async (script: Script, more: { env?: Record<string, string>; payload?: unknown } = {}) => {
  await using server = await scriptedServer(script)
  const inputs = { 'api-url': server.url, 'api-key': KEY, 'project-id': PROJECT, comment: 'false', timeout: '20' }
  return { ...(await runAction({ inputs, ...more })), requests: server.requests }
}

const looksLike = (more: object): Answer => {
  const { status, body } = seen('failed') as { status: number; body: object }
  return { status, body: { ...body, ...more } }
}

const notFairlead = (stdout: string) => {
  expect(stdout).not.toContain('The action failed unexpectedly')
  expect(stdout).toMatch(/^::error title=Fairlead::`api-url`: what answers at .* is not Fairlead/m)
}

describe.concurrent('an answer of the wrong shape is reported as invalid', () => {
  test.each([
    ['a failure that is a text', { failure: 'x' }],
    ['a failure without a message', { failure: { stage: 'build', code: 'build_failed' } }],
    ['a failure whose message is not a text', { failure: { stage: 'build', code: 'build_failed', message: {} } }],
    ['a commit that is a list', { commit: [1] }],
    ['a time that is an object', { created_at: {} }],
  ])('%s', async (_, more) => {
    const { code, stdout, stderr, outputs } = await run({ create: created, polls: looksLike(more) })
    expect([code, stderr, outputs['deployment-id']]).toEqual([1, '', DEPLOYMENT])
    notFairlead(stdout)
  })

  test.each([['a text'], [[1]], [[null, {}]], [[{ field: 'name' }]]])(
    'a refusal with the errors %j',
    async (errors) => {
      const body = { error: { code: 'invalid_request', message: 'no', details: { errors } } }
      const { code, stdout, stderr } = await run({ create: { status: 400, body } })
      expect([code, stderr]).toEqual([1, ''])
      notFairlead(stdout)
    },
  )
})

describe.concurrent('an event that does not say whose code it is about', () => {
  const head = { ref: 'fix', sha: '2e'.repeat(20) }
  const workflowRun = { conclusion: 'success', event: 'pull_request', head_branch: 'fix', head_sha: head.sha }

  test.each([
    ['pull_request_target', { action: 'opened', number: 12, pull_request: { number: 12, head } }],
    ['workflow_run', { workflow_run: { ...workflowRun, pull_requests: [{ number: 12 }] } }],
  ])('deploys nothing: %s', async (name, payload) => {
    const env = { ...pushEnvironment, GITHUB_EVENT_NAME: name }
    const { code, stdout, requests } = await run({ create: created, polls: seen('running') }, { env, payload })
    expect([code, requests]).toEqual([1, []])
    expect(stdout).toContain(
      '::error title=Fairlead::`allow-unsafe-fork-code`: is false, and the code comes from an unknown repository',
    )
  })
})
