import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ask, expectNotFound, withKey } from '../../harness/conformance.ts'
import { type ServerWithProject, serverWithProject } from '../../harness/project.ts'

let given: ServerWithProject
beforeAll(async () => {
  given = await serverWithProject()
})
afterAll(() => given?.[Symbol.asyncDispose]())

const caller = () => withKey(given.server, given.server.apiKey)

describe('PATCH /projects/:project_id/apps/:app_id/volumes', () => {
  it('refuses what is no volume of the app', async () => {
    const params = { project_id: given.projectId, app_id: await given.appRow() }
    const { status, text } = await ask(caller(), 'volumes.update', params, { delete: ['data'] })
    expect([status, text]).toEqual([400, expect.stringContaining('is no volume of this app')])
  })

  it('answers 404 with the body of an app that never existed', async () => {
    const id = await given.appRow()
    await expectNotFound(given.server, 'volumes.update', { project_id: given.projectId, app_id: id })
  })
})
