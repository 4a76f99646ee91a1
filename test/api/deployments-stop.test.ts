import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { findProcesses } from '../../server/src/platform/processes.ts'
import { deployAndSettle, hangingBuild, settled } from '../harness/deployments.ts'
import { releasesOnDisk } from '../harness/releases.ts'
import { nodeApp, type Repository, repository } from '../harness/repository.ts'
import { type TestServer, testServer } from '../harness/server.ts'

let server: TestServer
let projectId: string
let source: Repository
beforeAll(async () => {
  server = await testServer({ FAIRLEAD_DRAIN_TIMEOUT: '1' })
  projectId = (await server.client.projects.create({ body: { name: 'p', plan: 'starter' } })).id
  source = await repository(nodeApp('here'))
})
afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await source[Symbol.asyncDispose]()
})

const paramsOf = (id: string) => ({ params: { project_id: projectId, id } })
const processesOf = (id: string) => findProcesses({ name: 'FAIRLEAD_DEPLOYMENT_ID', value: id })
const deploy = (name: string) => deployAndSettle(server.client, projectId, { name, git_url: source.url })
const end = (id: string) => settled(server.client, projectId, id)
const gone = (id: string) => expect.poll(() => processesOf(id), { timeout: 30_000 }).toEqual([])

describe('POST /projects/:project_id/deployments/:id/stop', () => {
  it('ends the app, whose address answers 503, until it is restarted', async () => {
    const { id, url } = await deploy('stops')
    expect(await server.client.deployments.stop(paramsOf(id))).toMatchObject({ status: 'stopped' })
    expect(await server.client.deployments.stop(paramsOf(id))).toMatchObject({ status: 'stopped' })
    await gone(id)
    expect((await fetch(url)).status).toBe(503)
    expect(await server.client.deployments.restart(paramsOf(id))).toMatchObject({ status: 'building' })
    expect(await end(id)).toMatchObject({ status: 'running', failure: null })
    expect(await (await fetch(url)).text()).toBe('here')
  })

  it('lets the app finish its requests', async () => {
    await using slow = await repository({
      'package.json': JSON.stringify({ scripts: { start: 'node server.js' } }),
      'server.js': `require('node:http').createServer((request, response) => {
  if (request.url !== '/slow') return response.end('quick')
  response.write('begun ')
  setTimeout(() => response.end('ended'), 400)
}).listen(process.env.PORT)`,
    })
    const { id, url } = await deployAndSettle(server.client, projectId, { name: 'slow', git_url: slow.url })
    const answer = await fetch(`${url}/slow`)
    await server.client.deployments.stop(paramsOf(id))
    expect(await answer.text()).toBe('begun ended')
    await gone(id)
  })

  it('refuses what does not run', async () => {
    await using hanging = await repository(hangingBuild)
    const body = { name: 'hangs', git_url: hanging.url }
    const { id } = await server.client.deployments.create({ params: { project_id: projectId }, body })
    await expect(server.client.deployments.stop(paramsOf(id))).rejects.toMatchObject({
      code: 'invalid_request',
      message: 'This deployment is building and cannot be stopped. Cancel it instead.',
    })
    await server.client.deployments.cancel(paramsOf(id))
  })
})

describe('POST /projects/:project_id/deployments/:id/restart', () => {
  it('starts the same release as a new process', async () => {
    const { id, url } = await deploy('again')
    const before = await processesOf(id)
    await server.client.deployments.restart(paramsOf(id))
    expect((await end(id)).status).toBe('running')
    const after = await processesOf(id)
    expect(after).not.toEqual([])
    expect(after.filter((pid) => before.includes(pid))).toEqual([])
    expect(await (await fetch(url)).text()).toBe('here')
  })

  it('refuses while another release of the app is building or runs', async () => {
    const first = await deploy('busy')
    await using hanging = await repository(hangingBuild)
    const body = { name: 'busy', git_url: hanging.url }
    const building = await server.client.deployments.create({ params: { project_id: projectId }, body })
    await expect(server.client.deployments.restart(paramsOf(first.id))).rejects.toMatchObject({
      code: 'invalid_request',
      message: expect.stringContaining(building.id),
    })
    await server.client.deployments.cancel(paramsOf(building.id))
    await deploy('busy')
    await expect(server.client.deployments.restart(paramsOf(first.id))).rejects.toMatchObject({
      code: 'invalid_request',
      message: expect.stringContaining('Roll back'),
    })
    expect((await server.client.deployments.get(paramsOf(first.id))).status).toBe('superseded')
  })

  it('and stop in a row end as the last one says', async () => {
    const { id, url } = await deploy('hasty')
    await server.client.deployments.stop(paramsOf(id))
    await server.client.deployments.restart(paramsOf(id))
    await server.client.deployments.cancel(paramsOf(id))
    await server.client.deployments.restart(paramsOf(id))
    expect((await end(id)).status).toBe('running')
    await server.client.deployments.stop(paramsOf(id))
    await gone(id)
    expect((await fetch(url)).status).toBe(503)
    expect((await server.client.deployments.get(paramsOf(id))).status).toBe('stopped')
  })
})

describe('DELETE /projects/:project_id/deployments/:id', () => {
  it('removes one at rest with its files and log; the last one of an app frees its address', async () => {
    const first = await deploy('goes')
    const second = await deploy('goes')
    await expect(server.client.deployments.delete(paramsOf(second.id))).rejects.toMatchObject({
      code: 'invalid_request',
      message: 'This deployment is running and cannot be deleted. Stop it first.',
    })
    await server.client.deployments.stop(paramsOf(second.id))
    await server.client.deployments.delete(paramsOf(second.id))
    await expect(server.client.deployments.get(paramsOf(second.id))).rejects.toMatchObject({ code: 'not_found' })
    await expect(server.client.deployments.delete(paramsOf(second.id))).rejects.toMatchObject({ code: 'not_found' })
    await gone(second.id)
    expect((await fetch(first.url)).status).toBe(503)
    await server.client.deployments.delete(paramsOf(first.id))
    await expect.poll(() => fetch(first.url).catch(() => 'closed'), { timeout: 30_000 }).toBe('closed')
    await expect
      .poll(() => releasesOnDisk(server.dataDirectory), { timeout: 30_000 })
      .not.toContainEqual(expect.stringMatching(`${first.id}|${second.id}`))
  })

  it('makes room for another app where the plan allows no further one', async () => {
    const small = await server.client.projects.create({ body: { name: 'small' } })
    const params = { project_id: small.id }
    const create = (name: string) => server.client.deployments.create({ params, body: { name, git_url: source.url } })
    const made = await Promise.all(['a', 'b', 'c', 'd', 'e', 'f', 'g'].map((name) => create(name).catch(String)))
    const refused = made.filter((each) => typeof each === 'string')
    expect(refused).toHaveLength(2)
    expect(refused[0]).toContain('the plan free of this project allows 5 apps')
    const [accepted] = made.filter((each) => typeof each !== 'string')
    await create(String(accepted?.name))
    const { deployments } = await server.client.deployments.list({ params })
    for (const { id } of deployments.filter(({ name }) => name === accepted?.name)) {
      await server.client.deployments.cancel({ params: { ...params, id } }).catch(() => undefined)
      await server.client.deployments.stop({ params: { ...params, id } }).catch(() => undefined)
      await server.client.deployments.delete({ params: { ...params, id } })
    }
    await create('another')
    for (const { id } of (await server.client.deployments.list({ params })).deployments) {
      await server.client.deployments.cancel({ params: { ...params, id } }).catch(() => undefined)
    }
  })
})
