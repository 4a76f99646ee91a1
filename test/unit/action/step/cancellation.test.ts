import { describe, test } from 'vitest'
import { run, running } from '../../../harness/action/step/run.ts'
import { APP, created, DEPLOYMENT, KEY, PROJECT, refusal, type Script, seen } from '../../../harness/action/support.ts'

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

  test('ends within the time that the runner allows, whatever the server does', async ({ expect, signal }) => {
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

  test('during the creation of the deployment says that the deployment may continue', async ({ expect, signal }) => {
    const result = await run(
      { create: 'hang' },
      { signal, onLine: (line, kill) => line.startsWith('Deploying') && kill('SIGINT') },
    )
    expect(result).toMatchObject({ code: 1, outputs: { status: 'failed' } })
    expect(result.errors).toEqual([expect.stringContaining('cancelled while the deployment was being created')])
  })

  test('by SIGKILL is cleaned up by the post step', async ({ expect, signal }) => {
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
  ])('or a run %s leaves nothing to clean up', async ([, script, inputs], { expect, signal }) => {
    const { state } = await run(script, { signal, inputs })
    const post = await run(script, { signal, inputs, env: state })
    expect(post).toMatchObject({ code: 0, stdout: '', stderr: '', requests: [] })
  })
})
