import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectNotFound, succeed, withKey } from '../../harness/conformance.ts'
import { type ServerWithProject, serverWithProject } from '../../harness/project.ts'

let given: ServerWithProject
beforeAll(async () => {
  given = await serverWithProject()
})
afterAll(() => given?.[Symbol.asyncDispose]())

const caller = () => withKey(given.server, given.server.apiKey)

describe('GET /projects/:project_id/apps/:app_id/processes', () => {
  it('lists web with the limits of the plan, also while nothing runs', async () => {
    const { id } = await given.deploy('plain')
    const app_id = (await given.appNamed('plain')).id
    const read = () => succeed(caller(), 'processes.list', { project_id: given.projectId, app_id })
    const web = { type: 'web', instances: 1, asked: null, memory_mb: 4_000, cpus: 4, command: expect.any(String) }
    const first = { name: 'web.1', state: 'running', restarts: 0, started_at: null, usage: null }
    expect(await read()).toEqual({ release_id: id, max_instances: 50, processes: [{ ...web, running: [first] }] })
    await given.client.deployments.stop(given.paramsOf(id))
    expect(await read()).toEqual({ release_id: null, max_instances: 50, processes: [{ ...web, running: [] }] })
  })

  it('answers 404 with the body of an app that never existed', async () => {
    const id = await given.appRow()
    await expectNotFound(given.server, 'processes.list', { project_id: given.projectId, app_id: id })
  })
})
