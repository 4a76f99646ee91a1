import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { pullRequestEnvironment } from '../../harness/action/payloads.ts'
import { settled } from '../../harness/deployments.ts'
import { nodeApp } from '../../harness/repository.ts'
import { BUILDING, buildingApp, slowApp, type Workflow, workflow } from './harness.ts'

let at: Workflow
beforeAll(async () => {
  at = await workflow()
})
afterAll(() => at[Symbol.asyncDispose]())

const remote = (id: string | undefined) =>
  at.server.client.deployments.get({ params: { project_id: at.projectId, id: id ?? '' } })

test('a push is deployed at its commit, and the app answers', async () => {
  const commit = await at.push('main', buildingApp("console.log('building the shop')"))
  const result = await at.deploy('main', commit)
  expect(result).toMatchObject({ code: 0, stderr: '', outputs: { status: 'running', commit, skipped: 'false' } })
  expect(await (await fetch(result.outputs['url'] ?? '')).text()).toBe('built')
  expect(result.stdout).toMatch(/::group::Build log[\s\S]*building the shop[\s\S]*::endgroup::/)
  expect(await remote(result.outputs['deployment-id'])).toMatchObject({ name: 'shop', branch: 'main', commit })
})

test('a push that is overtaken by another is deployed at its own commit', async () => {
  const older = await at.push('overtaken', nodeApp('older'))
  await at.push('overtaken', nodeApp('newer'))
  const result = await at.deploy('overtaken', older, { inputs: { name: 'overtaken' } })
  expect(result).toMatchObject({ code: 0, outputs: { commit: older } })
  expect(await (await fetch(result.outputs['url'] ?? '')).text()).toBe('older')
})

test('a build that fails fails the run with the end of its log', async () => {
  const commit = await at.push('broken', buildingApp("console.error('broken on purpose'); process.exit(3)"))
  const result = await at.deploy('broken', commit, { inputs: { name: 'broken' } })
  expect(result).toMatchObject({ code: 1, outputs: { status: 'failed', commit } })
  expect(result.stdout).toMatch(/^::error::dep_\w+ failed in the stage build/m)
  expect(result.stdout).toMatch(/::group::The end of the log[\s\S]*broken on purpose/)
  expect(result.summary).toMatch(/<pre>[\s\S]*broken on purpose/)
})

test('a build that takes too long is cancelled at the server', async () => {
  const commit = await at.push('slow', slowApp)
  const result = await at.deploy('slow', commit, { inputs: { name: 'slow', timeout: '10' } })
  expect(result).toMatchObject({ code: 1, outputs: { status: 'canceled' } })
  expect(result.stdout).toMatch(/^::error::.*after 10 s.*cancelled at the server/m)
  expect(await remote(result.outputs['deployment-id'])).toMatchObject({ status: 'canceled' })
})

test('a run that is cancelled cancels at the server', async () => {
  const commit = await at.push('slow', slowApp)
  const result = await at.deploy('slow', commit, {
    inputs: { name: 'cancelled' },
    onLine: (line, kill) => line === BUILDING && kill('SIGINT'),
  })
  expect(result).toMatchObject({ code: 1, outputs: { status: 'canceled' } })
  expect(await remote(result.outputs['deployment-id'])).toMatchObject({ status: 'canceled' })
})

test('a run that is killed is cleaned up by the post step', async () => {
  const commit = await at.push('slow', slowApp)
  const inputs = { name: 'killed' }
  const killed = await at.deploy('slow', commit, {
    inputs,
    onLine: (line, kill) => line === BUILDING && kill('SIGKILL'),
  })
  const id = killed.outputs['deployment-id']
  expect(await remote(id)).toMatchObject({ status: 'building' })
  expect(await at.deploy('slow', commit, { inputs, env: killed.state })).toMatchObject({ code: 0 })
  expect(await remote(id)).toMatchObject({ status: 'canceled' })
})

test('a deployment that waits for its turn and is overtaken by a newer one fails the run', async () => {
  await at.push('slow', slowApp)
  const commit = await at.push('quick', nodeApp('quick'))
  const { client } = at.server
  const params = { project_id: at.projectId }
  const create = (branch: string) =>
    client.deployments.create({ params, body: { name: 'overtaken-app', git_url: at.repository.url, branch } })
  const ahead = await create('slow')
  // Once it has a commit, it is being deployed, and later deployments wait.
  while ((await remote(ahead.id)).commit === null) await sleep(50)
  const newer = Promise.withResolvers<string>()
  const overtake = async () => newer.resolve((await create('quick')).id)
  const result = await at.deploy('quick', commit, {
    inputs: { name: 'overtaken-app', timeout: '60' },
    onLine: (line) => line.startsWith('building') && overtake(),
  })
  expect(result).toMatchObject({ code: 1, outputs: { status: 'superseded' } })
  expect(result.stdout).toMatch(/^::error::A newer deployment of overtaken-app took over/m)
  await client.deployments.cancel({ params: { ...params, id: ahead.id } })
  expect(await settled(client, at.projectId, await newer.promise)).toMatchObject({ status: 'running' })
})

test('a pull request has an app of its own until it is closed', async () => {
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
  expect(await attempt({ 'api-key': readOnly })).toMatch(/^::error::`api-key`: /m)
  expect(await attempt({ 'project-id': 'proj_01k7d2x3y4z5a6b7c8d9e0f1g2' })).toMatch(/^::error::`project-id`: /m)
  expect(await attempt({ 'env-vars': 'PORT=1' })).toMatch(/^::error::`env-vars`: PORT /m)
})
