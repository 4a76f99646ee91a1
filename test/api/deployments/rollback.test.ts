import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectNotFound } from '../../harness/conformance.ts'
import { hangingBuild } from '../../harness/deployments.ts'
import { type ServerWithProject, serverWithProject } from '../../harness/project.ts'
import { testReceiver } from '../../harness/receiver.ts'
import { releasesOnDisk } from '../../harness/releases.ts'
import { nodeApp, repository } from '../../harness/repository.ts'

let given: ServerWithProject
beforeAll(async () => {
  given = await serverWithProject()
})
afterAll(() => given?.[Symbol.asyncDispose]())

const answerOf = async (url: string) => (await fetch(url)).text()

/** Deploys an app with two releases, `one` and `two`; `two` runs. */
async function twoReleases(name: string) {
  await given.source.commit(nodeApp('one'))
  const one = await given.deploy(name)
  await given.source.commit(nodeApp('two'))
  const two = await given.deploy(name)
  expect(await answerOf(two.url)).toBe('two')
  return { one, two }
}

describe('POST /projects/:project_id/deployments/:id/rollback', () => {
  it('starts an earlier release from its files, without the repository, and announces it', async () => {
    const { one, two } = await twoReleases('back')
    await using receiver = await testReceiver()
    const hook = await given.client.webhooks.create({ body: { url: receiver.url, project_id: given.projectId } })
    receiver.trust(hook.secret)
    await given.source.commit({ 'package.json': 'broken' })
    expect(await given.client.deployments.rollback(given.paramsOf(one.id))).toMatchObject({
      id: one.id,
      status: 'building',
      commit: one.commit,
    })
    expect(await given.end(one.id)).toMatchObject({ status: 'running', url: two.url, commit: one.commit })
    expect(await answerOf(two.url)).toBe('one')
    expect((await given.client.deployments.get(given.paramsOf(two.id))).status).toBe('superseded')
    await receiver.waitFor(({ event, data }) => event === 'deployment.succeeded' && data.deployment_id === one.id)

    await given.client.deployments.rollback(given.paramsOf(two.id))
    expect((await given.end(two.id)).status).toBe('running')
    expect(await answerOf(two.url)).toBe('two')
    await given.client.webhooks.delete({ params: { id: hook.id } })
  })

  it('supersedes a build of the app instead of waiting for it', async () => {
    const { one } = await twoReleases('urgent')
    await using hanging = await repository(hangingBuild)
    const bad = await given.create('urgent', hanging.url)
    await expect
      .poll(() => given.client.deployments.logs(given.paramsOf(bad.id)).then((log) => log.text()), { timeout: 60_000 })
      .toContain('building')
    await given.client.deployments.rollback(given.paramsOf(one.id))
    expect((await given.end(one.id)).status).toBe('running')
    expect((await given.client.deployments.get(given.paramsOf(bad.id))).status).toBe('superseded')
    await expect
      .poll(() => releasesOnDisk(given.server.dataDirectory))
      .not.toContainEqual(expect.stringContaining(bad.id))
  })

  it('fails with its reason when the release cannot start again, and the running release continues', async () => {
    await given.source.commit({
      'package.json': JSON.stringify({ scripts: { start: 'node server.js' } }),
      // Starts once.
      'server.js': `const fs = require('node:fs')
if (fs.existsSync('started')) { console.log('not again'); process.exit(3) }
fs.writeFileSync('started', '')
require('node:http').createServer((q, r) => r.end('once')).listen(process.env.PORT)`,
    })
    const once = await given.deploy('once')
    await given.source.commit(nodeApp('two'))
    const two = await given.deploy('once')
    await given.client.deployments.rollback(given.paramsOf(once.id))
    const failed = await given.end(once.id)
    expect(failed).toMatchObject({ status: 'failed', failure: { stage: 'start', code: 'app_exited' } })
    expect(failed.failure?.message).toContain('not again')
    expect(await answerOf(two.url)).toBe('two')
    expect((await given.client.deployments.get(given.paramsOf(two.id))).status).toBe('running')
  })

  it('refuses a running release and a release that was never built, and names the right action', async () => {
    const { two } = await twoReleases('refused')
    await expect(given.client.deployments.rollback(given.paramsOf(two.id))).rejects.toMatchObject({
      code: 'invalid_request',
      message: expect.stringContaining('Restart it'),
    })
    await using broken = await repository({ 'README.txt': 'nothing' })
    const failed = await given.deploy('refused', broken.url)
    await expect(given.client.deployments.rollback(given.paramsOf(failed.id))).rejects.toMatchObject({
      code: 'invalid_request',
      message: expect.stringContaining('Create a new deployment'),
    })
    expect((await given.client.deployments.get(given.paramsOf(two.id))).status).toBe('running')
  })

  it('answers the same 404 as for an id that never existed', async () => {
    const { id } = await given.create('mine', 'https://127.0.0.1:1/a.git')
    await expectNotFound(given.server, 'deployments.rollback', { project_id: given.projectId, id })
  })
})
