import { describe, expect, it } from 'vitest'
import { expectNotFound, succeed, withKey } from '../../harness/conformance.ts'
import { serverWithProject } from '../../harness/project.ts'

describe('GET /projects/:project_id/apps/:app_id/schedules/:id', () => {
  it('reads one schedule', async () => {
    await using given = await serverWithProject()
    const params = { project_id: given.projectId, app_id: await given.appRow() }
    const create = (name: string) =>
      given.client.schedules.create({ params, body: { name, schedule: '5 4 * * *', command: ['true'] } })
    const [first, second] = [await create('first'), await create('second')]
    const caller = withKey(given.server, given.server.apiKey)
    expect(await succeed(caller, 'schedules.get', { ...params, id: first.id })).toEqual(first)
    await expectNotFound(given.server, 'schedules.get', { ...params, id: second.id })
  })
})
