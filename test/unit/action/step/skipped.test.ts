import { describe, test } from 'vitest'
import { mergeGroup, pullRequest, pullRequestEnvironment } from '../../../harness/action/payloads.ts'
import { run, running } from '../../../harness/action/step/run.ts'
import { PROJECT } from '../../../harness/action/support.ts'

describe.concurrent('a run with nothing to deploy', () => {
  test('says so and succeeds', async ({ expect, signal }) => {
    const env = { GITHUB_EVENT_NAME: 'merge_group' }
    const result = await run(running, { signal, env, payload: mergeGroup })
    expect(result).toMatchObject({ code: 0, outputs: { skipped: 'true', status: 'skipped' }, requests: [] })
    expect(result.stdout).toMatch(/^::notice title=Fairlead::A merge group/m)
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

  test('shows the request without its secrets in a dry run', async ({ expect, signal }) => {
    const inputs = { 'dry-run': 'true', 'env-vars': 'TOKEN=hunter2hunter2', 'git-token': 'ghs_hunter2' }
    const { stdout, requests, ...result } = await run(running, { signal, inputs })
    expect(result).toMatchObject({ code: 0, outputs: { skipped: 'true', status: 'skipped' } })
    expect(requests).toEqual([])
    expect(stdout.replace(/^::add-mask::.*\n/gm, '')).not.toMatch(/hunter2|fl_/)
    expect(stdout).toContain(`POST ${result.url}/v1/projects/${PROJECT}/deployments\nAuthorization: Bearer ***\n`)
    expect(stdout).toContain('"TOKEN": "***"')
  })
})
