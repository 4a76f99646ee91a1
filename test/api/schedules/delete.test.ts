import { describe, expect, it } from 'vitest'
import { expectNotFound, succeed, withKey } from '../../harness/conformance.ts'
import { serverWithProject } from '../../harness/project.ts'

describe('DELETE /projects/:project_id/apps/:app_id/schedules/:id', () => {
  it('deletes one schedule', async () => {
    await using given = await serverWithProject()
    const params = { project_id: given.projectId, app_id: await given.appRow() }
    const create = (name: string) =>
      given.client.schedules.create({ params, body: { name, schedule: '5 4 * * *', command: ['true'] } })
    const [first, second] = [await create('first'), await create('second')]
    const caller = withKey(given.server, given.server.apiKey)
    await succeed(caller, 'schedules.delete', { ...params, id: first.id })
    const { schedules } = await given.client.schedules.list({ params })
    expect(schedules.map(({ id }) => id)).toEqual([second.id])
    await expectNotFound(given.server, 'schedules.delete', { ...params, id: second.id })
  })
})
