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

  it('answers 404 with the body of an id that never existed', async () => {
    const body = { name: 'mine', git_url: 'https://127.0.0.1:1/a.git' }
    const { id } = await server.client.deployments.create({ params: { project_id: projectId }, body })
    await expectNotFound(server, 'deployments.restart', { project_id: projectId, id })
  })
})
