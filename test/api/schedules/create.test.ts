import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ask, expectNotFound, succeed, withKey } from '../../harness/conformance.ts'
import { type ServerWithProject, serverWithProject } from '../../harness/project.ts'

let given: ServerWithProject
let params: { project_id: string; app_id: string }
beforeAll(async () => {
  given = await serverWithProject()
  params = { project_id: given.projectId, app_id: await given.appRow() }
})
afterAll(() => given?.[Symbol.asyncDispose]())

const caller = () => withKey(given.server, given.server.apiKey)

describe('POST /projects/:project_id/apps/:app_id/schedules', () => {
  it('creates a schedule with its next time', async () => {
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

  it('refuses what is no time', async () => {
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

  it('answers 404 with the body of an app that never existed', async () => {
    await expectNotFound(given.server, 'schedules.create', params)
  })
})
