import { describe, test } from 'vitest'
import { HEAD } from '../../../harness/action/payloads.ts'
import { commandsIn, run } from '../../../harness/action/step/run.ts'
import {
  type Answer,
  APP,
  created,
  DEPLOYMENT,
  KEY,
  PROJECT,
  refusal,
  type Script,
  seen,
} from '../../../harness/action/support.ts'

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
    expect(result.summary).toContain('<pre><code>error: no such file</code></pre>')
  })

  test('cannot inject commands for the runner or markup of the summary by its output', async ({ expect, signal }) => {
    const message = 'first ##[add-mask]a\r::set-env name=A::b\n::add-mask::c\n##[error]d\n  ::error::e\n</pre><script>'
    const result = await run({ create: created, polls: [seen('failed', { ...failure, message })] }, { signal })
    expect(commandsIn(result.stdout)).toEqual([
      `::add-mask::${KEY}`,
      expect.stringMatching(
        /^::error title=Fairlead::dep_\w+ failed in the stage build \(build_failed\): first ## \[add-mask]a$/,
      ),
      '::group::The end of the log',
      '::endgroup::',
    ])
    expect(result.summary).toContain('&lt;/pre&gt;&lt;script&gt;')
  })

  test('fails the run when a newer deployment took over', async ({ expect, signal }) => {
    const result = await run({ create: created, polls: [seen('superseded')] }, { signal })
    expect(result).toMatchObject({ code: 1, outputs: { status: 'superseded' } })
    expect(result.errors).toEqual([expect.stringContaining('A newer deployment of shop took over')])
  })

  test.for(['canceled', 'stopped', 'archived'])('fails the run in the state %s', async (status, { expect, signal }) => {
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
    expect(result.summary).toContain(`<pre><code>${lines.slice(-30).join('\n')}</code></pre>`)
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

  test('succeeds when it runs at the last moment', async ({ expect, signal }) => {
    const cancel = refusal(400, 'invalid_request', 'This deployment is running and cannot be canceled.')
    const script: Script = { create: created, polls: seen('running'), cancel, log: 'hang' }
    expect(await run(script, { signal, inputs: { timeout: '3' } })).toMatchObject({
      code: 0,
      outputs: { status: 'running' },
    })
  })

  test('fails the run when the server stays silent', async ({ expect, signal }) => {
    const script: Script = { create: created, polls: 'hang', cancel: 'hang' }
    const result = await run(script, { signal, inputs: { timeout: '3' } })
    expect(result).toMatchObject({ code: 1, outputs: { 'deployment-id': DEPLOYMENT, status: 'building' } })
    expect(result.errors).toEqual([expect.stringMatching(/could not be cancelled.*`timeout`/)])
  })

  test('fails the run when its state becomes unreadable', async ({ expect, signal }) => {
    const polls = refusal(401, 'unauthorized', 'x')
    const result = await run({ create: created, polls }, { signal })
    expect(result).toMatchObject({ code: 1, outputs: { 'deployment-id': DEPLOYMENT, status: 'building' } })
    expect(result.errors).toEqual([expect.stringContaining('cannot be read'), expect.stringContaining('`api-key`')])
  })
})
