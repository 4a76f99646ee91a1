import { describe, expect, it } from 'vitest'
import { expectNotFound, succeed, withKey } from '../../harness/conformance.ts'
import { serverWithProject } from '../../harness/project.ts'

describe('GET /projects/:project_id/apps/:app_id/schedules', () => {
  it('lists the schedules of one app, newest first', async () => {
    await using given = await serverWithProject()
    const params = { project_id: given.projectId, app_id: await given.appRow() }
    const create = (name: string) =>
      given.client.schedules.create({ params, body: { name, schedule: '5 4 * * *', command: ['true'] } })
    await create('first')
    await create('second')
    const caller = withKey(given.server, given.server.apiKey)
    const { schedules } = await succeed(caller, 'schedules.list', params)
    expect(schedules.map(({ name }) => name)).toEqual(['second', 'first'])
    await expectNotFound(given.server, 'schedules.list', params)
  })
})
