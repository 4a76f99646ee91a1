import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ask, expectNotFound, succeed, withKey } from '../../harness/conformance.ts'
import { deployAndSettle } from '../../harness/deployments.ts'
import { type ServerWithProject, serverWithProject } from '../../harness/project.ts'
import { nodeApp, repository } from '../../harness/repository.ts'

let given: ServerWithProject
beforeAll(async () => {
  given = await serverWithProject()
})
afterAll(() => given?.[Symbol.asyncDispose]())

const caller = () => withKey(given.server, given.server.apiKey)
const scaled = (processes: Record<string, { instances: number | null }>) => ({ processes })

describe('GET /projects/:project_id/apps/:app_id/processes', () => {
  it('lists web with the limits of the plan, even while nothing runs', async () => {
    const { id } = await given.deploy('plain')
    const app_id = (await given.appNamed('plain')).id
    const read = () => succeed(caller(), 'processes.list', { project_id: given.projectId, app_id })
    const web = { type: 'web', instances: 1, asked: null, memory_mb: 4_000, cpus: 4, command: expect.any(String) }
    // The server measures apps at intervals, and may have measured this app already.
    const usage = expect.toBeOneOf([null, expect.objectContaining({ memory_bytes: expect.any(Number) })])
    const first = { name: 'web.1', state: 'running', restarts: 0, started_at: null, usage }
    expect(await read()).toEqual({ release_id: id, max_instances: 50, processes: [{ ...web, running: [first] }] })
    await given.client.deployments.stop(given.paramsOf(id))
    expect(await read()).toEqual({ release_id: null, max_instances: 50, processes: [{ ...web, running: [] }] })
  })

  it('answers the same 404 as for an app that never existed', async () => {
    const id = await given.appRow()
    await expectNotFound(given.server, 'processes.list', { project_id: given.projectId, app_id: id })
  })
})

describe('PATCH /projects/:project_id/apps/:app_id/processes', () => {
  const otherApp = async () => {
    const { id } = await given.deploy('other')
    await given.client.deployments.stop(given.paramsOf(id))
    return (await given.appNamed('other')).id
  }

  it('keeps a number until the repository decides again, and changes no other app', async () => {
    const { id } = await given.deploy('kept')
    await given.client.deployments.stop(given.paramsOf(id))
    const params = { project_id: given.projectId, app_id: (await given.appNamed('kept')).id }
    const more = await succeed(caller(), 'processes.update', params, scaled({ web: { instances: 3 } }))
    expect(more.processes).toMatchObject([{ type: 'web', instances: 3, asked: 3 }])
    const other = { ...params, app_id: await otherApp() }
    await succeed(caller(), 'processes.update', other, scaled({ web: { instances: 2 } }))
    const back = await succeed(caller(), 'processes.update', params, scaled({ web: { instances: null } }))
    expect(back.processes).toMatchObject([{ type: 'web', instances: 1, asked: null }])
    expect((await given.client.processes.list({ params: other })).processes).toMatchObject([{ asked: 2 }])
  })

  it('refuses unknown types, zero web instances, and numbers beyond the plan, and then changes nothing', async () => {
    await given.deploy('within')
    const params = { project_id: given.projectId, app_id: (await given.appNamed('within')).id }
    const refused = async (processes: Record<string, { instances: number }>) => {
      const { status, text } = await ask(caller(), 'processes.update', params, scaled(processes))
      expect(status).toBe(400)
      return text
    }
    expect(await refused({ worker: { instances: 1 } })).toContain('is not a process type of this app, which has: web')
    expect(await refused({ web: { instances: 0 } })).toContain('stop the deployment instead')
    expect(await refused({ web: { instances: 51 } })).toContain('the plan enterprise allows an app 50')
    expect((await given.client.processes.list({ params })).processes).toMatchObject([{ instances: 1, asked: null }])
  })

  it('applies to deployments whose fairlead.json asks for more than the plan allows', async () => {
    await using source = await repository({
      ...nodeApp('here'),
      'fairlead.json': JSON.stringify({ processes: { web: { instances: 2 } } }),
    })
    const { id } = await given.client.projects.create({ body: { name: 'small', plan: 'free' } })
    const { status, failure } = await deployAndSettle(given.client, id, { name: 'many', git_url: source.url })
    expect([status, failure]).toEqual(['failed', expect.objectContaining({ code: 'too_many_instances' })])
  })

  it('answers the same 404 as for an app that never existed', async () => {
    const id = await given.appRow()
    await expectNotFound(given.server, 'processes.update', { project_id: given.projectId, app_id: id })
  })
})
