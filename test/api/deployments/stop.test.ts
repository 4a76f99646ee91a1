import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { findProcesses } from '../../../server/src/platform/processes.ts'
import { expectNotFound } from '../../harness/conformance.ts'
import { deployAndSettle, hangingBuild, settled } from '../../harness/deployments.ts'
import { nodeApp, type Repository, repository } from '../../harness/repository.ts'
import { type TestServer, testServer } from '../../harness/server.ts'

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

  it('answers 404 with the body of an id that never existed', async () => {
    const body = { name: 'mine', git_url: 'https://127.0.0.1:1/a.git' }
    const { id } = await server.client.deployments.create({ params: { project_id: projectId }, body })
    await expectNotFound(server, 'deployments.stop', { project_id: projectId, id })
  })
})
