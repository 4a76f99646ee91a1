import { describe, expect, it } from 'vitest'
import { expectNotFound, succeed, withKey } from '../../harness/conformance.ts'
import { serverWithProject } from '../../harness/project.ts'

describe('GET /projects/:project_id/apps/:app_id/runs', () => {
  it('lists the runs of one app, newest first', async () => {
    await using given = await serverWithProject()
    const params = { project_id: given.projectId, app_id: await given.appRow() }
    const other = { project_id: given.projectId, app_id: await given.appRow() }
    const create = (at: typeof params) => given.client.runs.create({ params: at, body: { command: ['true'] } })
    const [first, second] = [await create(params), await create(params)]
    await create(other)
    const caller = withKey(given.server, given.server.apiKey)
    const { runs } = await succeed(caller, 'runs.list', params)
    expect(runs.map(({ id, status }) => [id, status])).toEqual([
      [second.id, 'waiting'],
      [first.id, 'waiting'],
    ])
    expect((await given.client.runs.list({ params, query: { limit: 1 } })).runs).toHaveLength(1)
    await expectNotFound(given.server, 'runs.list', params)
  })
})
