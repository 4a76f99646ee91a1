import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ask, expectNotFound, succeed, withKey } from '../../harness/conformance.ts'
import { type ServerWithProject, serverWithProject } from '../../harness/project.ts'

let given: ServerWithProject
beforeAll(async () => {
  given = await serverWithProject()
})
afterAll(() => given?.[Symbol.asyncDispose]())

const caller = () => withKey(given.server, given.server.apiKey)
const inNewApp = async () => ({ project_id: given.projectId, app_id: await given.appRow() })

/** Makes two schedules of a new app. */
async function twoSchedules() {
  const params = await inNewApp()
  const create = (name: string) =>
    given.client.schedules.create({ params, body: { name, schedule: '5 4 * * *', command: ['true'] } })
  return { params, first: await create('first'), second: await create('second') }
}

describe('POST /projects/:project_id/apps/:app_id/schedules', () => {
  it('creates a schedule with its next time', async () => {
    const params = await inNewApp()
    const body = {
      name: 'nightly',
      schedule: '30 4 * * 1-5',
      timezone: 'Europe/Berlin',
      command: ['node', 'report.js'],
    }
    const made = await succeed(caller(), 'schedules.create', params, body)
    expect(made).toMatchObject({ ...body, overlap: 'forbid', from_file: false })
    const next = new Date(made.next_at).toLocaleTimeString('en-GB', { timeZone: 'Europe/Berlin' })
    expect(next).toBe('04:30:00')
    const again = await ask(caller(), 'schedules.create', params, body)
    expect([again.status, again.text]).toEqual([400, expect.stringContaining('another schedule of this app')])
  })

  it('refuses invalid times', async () => {
    const params = await inNewApp()
    const body = { name: 'x', schedule: '* * * * *', command: ['true'] }
    const wrong = [
      ['schedule', { schedule: '* * * * * *' }],
      ['schedule', { schedule: '@daily' }],
      ['schedule', { schedule: '61 * * * *' }],
      ['schedule', { schedule: '0 0 30 2 *' }],
      ['timezone', { timezone: 'Mars/Olympus' }],
      ['timezone', { timezone: '+02:00' }],
      ['overlap', { overlap: 'maybe' }],
      ['command', { command: [] }],
      ['name', { name: 'Not a slug' }],
    ] as const
    for (const [field, part] of wrong) {
      const answer = await ask(caller(), 'schedules.create', params, { ...body, ...part })
      expect([part, answer.status, JSON.parse(answer.text).error.details.field]).toEqual([part, 400, field])
    }
  })

  it('answers the same 404 as for an app that never existed', async () => {
    await expectNotFound(given.server, 'schedules.create', await inNewApp())
  })
})

describe('GET /projects/:project_id/apps/:app_id/schedules', () => {
  it('lists the schedules of one app, newest first', async () => {
    const { params } = await twoSchedules()
    await twoSchedules()
    const { schedules } = await succeed(caller(), 'schedules.list', params)
    expect(schedules.map(({ name }) => name)).toEqual(['second', 'first'])
    await expectNotFound(given.server, 'schedules.list', params)
  })
})

describe('GET /projects/:project_id/apps/:app_id/schedules/:id', () => {
  it('reads one schedule', async () => {
    const { params, first, second } = await twoSchedules()
    expect(await succeed(caller(), 'schedules.get', { ...params, id: first.id })).toEqual(first)
    await expectNotFound(given.server, 'schedules.get', { ...params, id: second.id })
  })
})

describe('PATCH /projects/:project_id/apps/:app_id/schedules/:id', () => {
  it('changes the given fields, and the next time with them', async () => {
    const { params, first, second } = await twoSchedules()
    const at = { ...params, id: first.id }
    const changed = await succeed(caller(), 'schedules.update', at, { schedule: '0 12 1 1 *', command: ['false'] })
    expect(changed).toMatchObject({ name: 'first', overlap: 'forbid', command: ['false'] })
    expect(changed.next_at).toMatch(/-01-01T12:00:00/)
    const taken = given.client.schedules.update({ params: at, body: { name: second.name } })
    await expect(taken).rejects.toMatchObject({ code: 'invalid_request', details: { field: 'name' } })
    await expectNotFound(given.server, 'schedules.update', at)
  })

  it('keeps the next time when the times stay: a due time still runs', async () => {
    const { params, first } = await twoSchedules()
    const stored = '2099-01-01T00:00:00.000Z'
    await given.server.database.query('update schedules set next_at = $2 where id = $1', [first.id, stored])
    const at = { ...params, id: first.id }
    const { next_at } = await given.client.schedules.update({ params: at, body: { command: ['false'] } })
    expect(next_at).toBe(stored)
  })
})

describe('DELETE /projects/:project_id/apps/:app_id/schedules/:id', () => {
  it('deletes one schedule', async () => {
    const { params, first, second } = await twoSchedules()
    await succeed(caller(), 'schedules.delete', { ...params, id: first.id })
    const { schedules } = await given.client.schedules.list({ params })
    expect(schedules.map(({ id }) => id)).toEqual([second.id])
    await expectNotFound(given.server, 'schedules.delete', { ...params, id: second.id })
  })
})
