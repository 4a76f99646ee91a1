import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { findProcesses } from '../../../server/src/platform/processes.ts'
import { expectNotFound } from '../../harness/conformance.ts'
import { deployAndSettle, hangingBuild, settled } from '../../harness/deployments.ts'
import { testReceiver } from '../../harness/receiver.ts'
import { releasesOnDisk } from '../../harness/releases.ts'
import { nodeApp, type Repository, repository } from '../../harness/repository.ts'
import { type TestServer, testServer } from '../../harness/server.ts'

let server: TestServer
let projectId: string
let source: Repository
beforeAll(async () => {
  server = await testServer({ FAIRLEAD_DRAIN_TIMEOUT: '1' })
  projectId = (await server.client.projects.create({ body: { name: 'p', plan: 'enterprise' } })).id
  source = await repository(nodeApp('one'))
})
afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await source[Symbol.asyncDispose]()
})

const paramsOf = (id: string) => ({ params: { project_id: projectId, id } })
const processesOf = (id: string) => findProcesses({ name: 'FAIRLEAD_DEPLOYMENT_ID', value: id })
const answerOf = async (url: string) => (await fetch(url)).text()
const end = async (id: string) => settled(server.client, projectId, id)

/** An app with two releases, `one` and `two`, of which the second runs alone. */
async function twoReleases(name: string) {
  await source.commit(nodeApp('one'))
  const one = await deployAndSettle(server.client, projectId, { name, git_url: source.url })
  await source.commit(nodeApp('two'))
  const two = await deployAndSettle(server.client, projectId, { name, git_url: source.url })
  expect(await answerOf(two.url)).toBe('two')
  return { one, two }
}

describe('POST /projects/:project_id/deployments/:id/rollback', () => {
  it('brings the files of an earlier release back without its repository, and announces it', async () => {
    const { one, two } = await twoReleases('back')
    await expect.poll(() => processesOf(one.id), { timeout: 30_000 }).toEqual([])
    await using receiver = await testReceiver()
    const hook = await server.client.webhooks.create({ body: { url: receiver.url, project_id: projectId } })
    receiver.trust(hook.secret)
    await source.commit({ 'package.json': 'broken' })
    expect(await server.client.deployments.rollback(paramsOf(one.id))).toMatchObject({
      id: one.id,
      status: 'building',
      commit: one.commit,
    })
    expect(await end(one.id)).toMatchObject({ status: 'running', url: two.url, commit: one.commit })
    expect(await answerOf(two.url)).toBe('one')
    expect((await server.client.deployments.get(paramsOf(two.id))).status).toBe('superseded')
    await receiver.waitFor(({ event, data }) => event === 'deployment.succeeded' && data.deployment_id === one.id)
    await expect.poll(() => processesOf(two.id), { timeout: 30_000 }).toEqual([])

    await server.client.deployments.rollback(paramsOf(two.id))
    expect((await end(two.id)).status).toBe('running')
    expect(await answerOf(two.url)).toBe('two')
    await server.client.webhooks.delete({ params: { id: hook.id } })
  })

  it('to a release that still finishes its requests takes it as it is', async () => {
    const slow = (text: string) => ({
      'package.json': JSON.stringify({ scripts: { start: 'node server.js' } }),
      'server.js': `let open
require('node:http').createServer((request, response) => {
  if (request.url === '/open') return (open = response).write('begun')
  open?.end(', and ended')
  response.end(${JSON.stringify(text)})
}).listen(process.env.PORT)`,
    })
    await using patient = await testServer({ FAIRLEAD_DRAIN_TIMEOUT: '60' })
    const project = await patient.client.projects.create({ body: { name: 'p' } })
    await source.commit(slow('one'))
    const one = await deployAndSettle(patient.client, project.id, { name: 'soon', git_url: source.url })
    const open = await fetch(`${one.url}/open`)
    await source.commit(slow('two'))
    await deployAndSettle(patient.client, project.id, { name: 'soon', git_url: source.url })
    const before = await processesOf(one.id)
    expect(before).not.toEqual([])
    await patient.client.deployments.rollback({ params: { project_id: project.id, id: one.id } })
    expect((await settled(patient.client, project.id, one.id)).status).toBe('running')
    expect(await answerOf(one.url)).toBe('one')
    expect(await processesOf(one.id)).toEqual(before)
    expect(await open.text()).toBe('begun, and ended')
  })

  it('does not wait for a build of the app, which it supersedes', async () => {
    const { one, two } = await twoReleases('urgent')
    await using hanging = await repository(hangingBuild)
    const bad = await server.client.deployments.create({
      params: { project_id: projectId },
      body: { name: 'urgent', git_url: hanging.url },
    })
    await expect
      .poll(() => server.client.deployments.logs(paramsOf(bad.id)).then((log) => log.text()), { timeout: 60_000 })
      .toContain('building')
    await server.client.deployments.rollback(paramsOf(one.id))
    expect((await end(one.id)).status).toBe('running')
    expect((await server.client.deployments.get(paramsOf(bad.id))).status).toBe('superseded')
    await untilAppAlone([bad.id, two.id])
    expect(await releasesOnDisk(server.dataDirectory)).not.toContainEqual(expect.stringContaining(bad.id))
  })

  it('that cannot start again fails with its reason, and what runs goes on', async () => {
    await source.commit({
      'package.json': JSON.stringify({ scripts: { start: 'node server.js' } }),
      // Starts once.
      'server.js': `const fs = require('node:fs')
if (fs.existsSync('started')) { console.log('not again'); process.exit(3) }
fs.writeFileSync('started', '')
require('node:http').createServer((q, r) => r.end('once')).listen(process.env.PORT)`,
    })
    const once = await deployAndSettle(server.client, projectId, { name: 'once', git_url: source.url })
    await source.commit(nodeApp('two'))
    const two = await deployAndSettle(server.client, projectId, { name: 'once', git_url: source.url })
    await expect.poll(() => processesOf(once.id), { timeout: 30_000 }).toEqual([])
    await server.client.deployments.rollback(paramsOf(once.id))
    const failed = await end(once.id)
    expect(failed).toMatchObject({ status: 'failed', failure: { stage: 'start', code: 'app_exited' } })
    expect(failed.failure?.message).toContain('not again')
    expect(await answerOf(two.url)).toBe('two')
    expect((await server.client.deployments.get(paramsOf(two.id))).status).toBe('running')
  })

  it('refuses what runs, what is building and what was never built, and says what to do', async () => {
    const { two } = await twoReleases('refused')
    await expect(server.client.deployments.rollback(paramsOf(two.id))).rejects.toMatchObject({
      code: 'invalid_request',
      message: expect.stringContaining('Restart it'),
    })
    await using broken = await repository({ 'README.txt': 'nothing' })
    const failed = await deployAndSettle(server.client, projectId, { name: 'refused', git_url: broken.url })
    await expect(server.client.deployments.rollback(paramsOf(failed.id))).rejects.toMatchObject({
      code: 'invalid_request',
      message: expect.stringContaining('Create a new deployment'),
    })
    expect((await server.client.deployments.get(paramsOf(two.id))).status).toBe('running')
  })

  it('answers 404 with the body of an id that never existed', async () => {
    const body = { name: 'mine', git_url: 'https://127.0.0.1:1/a.git' }
    const { id } = await server.client.deployments.create({ params: { project_id: projectId }, body })
    await expectNotFound(server, 'deployments.rollback', { project_id: projectId, id })
  })
})

async function untilAppAlone(ended: readonly string[]): Promise<void> {
  for (const id of ended) await expect.poll(() => processesOf(id), { timeout: 30_000 }).toEqual([])
}
