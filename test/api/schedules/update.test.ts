import { describe, expect, it } from 'vitest'
import { expectNotFound, succeed, withKey } from '../../harness/conformance.ts'
import { serverWithProject } from '../../harness/project.ts'

describe('PATCH /projects/:project_id/apps/:app_id/schedules/:id', () => {
  it('changes what is given, and the next time with it', async () => {
    await using given = await serverWithProject()
    const params = { project_id: given.projectId, app_id: await given.appRow() }
    const create = (name: string) =>
      given.client.schedules.create({ params, body: { name, schedule: '5 4 * * *', command: ['true'] } })
    const [first, second] = [await create('first'), await create('second')]
    const caller = withKey(given.server, given.server.apiKey)
    const at = { ...params, id: first.id }
    const changed = await succeed(caller, 'schedules.update', at, { schedule: '0 12 1 1 *', command: ['false'] })
    expect(changed).toMatchObject({ name: 'first', overlap: 'forbid', command: ['false'] })
    expect(changed.next_at).toMatch(/-01-01T12:00:00/)
    const taken = given.client.schedules.update({ params: at, body: { name: second.name } })
    await expect(taken).rejects.toMatchObject({ code: 'invalid_request', details: { field: 'name' } })
    await expectNotFound(given.server, 'schedules.update', at)
  })

  it('leaves the next time alone when the times stay: one that has come still comes', async () => {
    await using given = await serverWithProject()
    const params = { project_id: given.projectId, app_id: await given.appRow() }
    const body = { name: 'first', schedule: '5 4 * * *', command: ['true'] }
    const { id } = await given.client.schedules.create({ params, body })
    const stored = '2099-01-01T00:00:00.000Z'
    await given.server.database.query('update schedules set next_at = $2 where id = $1', [id, stored])
    const at = { ...params, id }
    const { next_at } = await given.client.schedules.update({ params: at, body: { command: ['false'] } })
    expect(next_at).toBe(stored)
  })
})
