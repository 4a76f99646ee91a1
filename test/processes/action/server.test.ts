import { afterAll, beforeAll, expect, test } from 'vitest'
import { pullRequestEnvironment } from '../../harness/action/payloads.ts'
import { nodeApp } from '../../harness/repository.ts'
import { BUILDING, buildingApp, keysOf, slowApp, type Workflow, workflow } from './harness.ts'

/*
 * The committed bundle against a process of the real server. test/unit/action/step tests the action's reactions to each
 * response.
 */

let at: Workflow
beforeAll(async () => {
  at = await workflow()
})
afterAll(() => at?.[Symbol.asyncDispose]())

const remote = (id: string | undefined) =>
  at.server.client.deployments.get({ params: { project_id: at.projectId, id: id ?? '' } })

test('a push is deployed at its commit, once for each attempt, and the app answers', async () => {
  const commit = await at.push('main', buildingApp("console.log('building the shop')"))
  await at.push('main', nodeApp('a newer commit'))
  const run = (GITHUB_RUN_ATTEMPT: string) =>
    at.deploy('main', commit, {
      env: { GITHUB_RUN_ID: '7', GITHUB_RUN_ATTEMPT, GITHUB_JOB: 'deploy', GITHUB_ACTION: '__self' },
    })
  const result = await run('1')
  expect(result).toMatchObject({ code: 0, stderr: '', outputs: { status: 'running', commit, skipped: 'false' } })
  expect(await (await fetch(result.outputs['url'] ?? '')).text()).toBe('built')
  expect(result.stdout).toMatch(/::group::Build log[\s\S]*building the shop[\s\S]*::endgroup::/)
  const id = result.outputs['deployment-id']
  expect(await remote(id)).toMatchObject({ name: 'shop', branch: 'main', commit })

  expect(await run('1')).toMatchObject({ code: 0, outputs: { 'deployment-id': id } })
  const next = await run('2')
  expect(next).toMatchObject({ code: 0, outputs: { status: 'running' } })
  const { deployments } = await at.server.client.deployments.list({ params: { project_id: at.projectId } })
  expect(deployments.map((each) => each.id)).toEqual([next.outputs['deployment-id'], id])
})

test('a build that fails fails the run with the end of its log, and the end of the job ends its key', async () => {
  const commit = await at.push('main', buildingApp("console.error('broken on purpose'); process.exit(3)"))
  const run = { inputs: { name: 'broken', 'api-key': '' }, env: at.issuer.workflow() }
  const result = await at.deploy('main', commit, run)
  expect(result).toMatchObject({ code: 1, outputs: { status: 'failed', commit } })
  expect(result.stdout).toMatch(/^::error title=Fairlead::dep_\w+ failed in the stage build/m)
  expect(result.stdout).toMatch(/::group::The end of the log[\s\S]*broken on purpose/)
  expect(result.summary).toMatch(/<pre>[\s\S]*broken on purpose/)

  const [key = '', ...others] = keysOf(result)
  expect(others).toEqual([])
  expect(await at.isKnown(key)).toBe(true)
  await at.deploy('main', commit, { ...run, env: { ...run.env, ...result.state } })
  expect(await at.isKnown(key)).toBe(false)
})

test('a cancelled run cancels at the server', async () => {
  const commit = await at.push('slow', slowApp)
  const result = await at.deploy('slow', commit, {
    inputs: { name: 'cancelled' },
    onLine: (line, kill) => line === BUILDING && kill('SIGINT'),
  })
  expect(result).toMatchObject({ code: 1, outputs: { status: 'canceled' } })
  expect(await remote(result.outputs['deployment-id'])).toMatchObject({ status: 'canceled' })
})

test('a pull request has a separate app until it is closed', async () => {
  const commit = await at.push('fix', nodeApp('preview'))
  const payload = (action: string) => ({
    action,
    pull_request: { number: 12, head: { ref: 'fix', sha: commit, repo: { full_name: 'acme/shop' } } },
  })
  const run = (action: string) =>
    at.deploy('main', commit, { env: pullRequestEnvironment, payload: payload(action), inputs: { name: 'web' } })
  const opened = await run('opened')
  expect(opened).toMatchObject({ code: 0, outputs: { status: 'running', commit } })
  expect(await remote(opened.outputs['deployment-id'])).toMatchObject({ name: 'web-pr-12', branch: 'fix' })
  expect(await run('closed')).toMatchObject({ code: 0, outputs: { status: 'removed' } })
  await expect(remote(opened.outputs['deployment-id'])).rejects.toMatchObject({ code: 'not_found' })
})

test('a key that may only read, an unknown project and a wrong variable are named', async () => {
  const readOnly = await at.server.key({ preset: 'read' })
  const attempt = async (inputs: Record<string, string>) => {
    const { code, stdout } = await at.deploy('main', '1'.repeat(40), { inputs })
    expect(code).toBe(1)
    return stdout
  }
  expect(await attempt({ 'api-key': readOnly })).toMatch(/^::error title=Fairlead::`api-key`: /m)
  expect(await attempt({ 'project-id': 'proj_01k7d2x3y4z5a6b7c8d9e0f1g2' })).toMatch(
    /^::error title=Fairlead::`project-id`: /m,
  )
  expect(await attempt({ 'env-vars': 'PORT=1' })).toMatch(/^::error title=Fairlead::`env-vars`: PORT /m)
})
