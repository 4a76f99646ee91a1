import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ask, expectNotFound, succeed, withKey } from '../../harness/conformance.ts'
import { ownServerWithProject, type ServerWithProject, serverWithProject } from '../../harness/project.ts'
import { repository } from '../../harness/repository.ts'
import { keepingApp } from '../../harness/volumes.ts'

let given: ServerWithProject
beforeAll(async () => {
  given = await serverWithProject()
})
afterAll(() => given?.[Symbol.asyncDispose]())

const caller = () => withKey(given.server, given.server.apiKey)

describe('GET /projects/:project_id/apps/:app_id/volumes', () => {
  it('shows the app’s limit by its project’s plan, or FAIRLEAD_APP_MB if that is less', async () => {
    await using limited = await ownServerWithProject({ FAIRLEAD_APP_MB: '12000' })
    const app_id = await limited.appRow()
    const params = { project_id: limited.projectId, app_id }
    const most = async (plan: string) => {
      await limited.client.projects.update({ params: { project_id: limited.projectId }, body: { plan } })
      return (await limited.client.volumes.list({ params })).max_bytes
    }
    expect([await most('free'), await most('starter'), await most('pro')]).toEqual([8e9, 10e9, 12e9])
  })

  it('is empty for an app without volumes', async () => {
    const app_id = await given.appRow()
    const { volumes } = await succeed(caller(), 'volumes.list', { project_id: given.projectId, app_id })
    expect(volumes).toEqual([])
  })

  it('fairlead.json names no volume of the system, and a request cannot set a repository’s volumes', async () => {
    await using hostile = await repository(keepingApp({ data: '/etc/ssl' }))
    const { failure } = await given.deploy('hostile', hostile.url)
    expect(failure).toMatchObject({
      code: 'invalid_fairlead_json',
      message: expect.stringContaining('must not be in /etc'),
    })
    const body = { name: 'given', git_url: hostile.url, volumes: { data: '/data' } }
    const refused = await ask(caller(), 'deployments.create', { project_id: given.projectId }, body)
    expect(refused.status).toBe(400)
    expect(refused.text).toContain('can be given only with image')
    const image = { name: 'given', image: 'registry.example/shop:1' }
    for (const volumes of [{ data: 'data' }, { data: '/proc/1' }, { 'Bad Name': '/data' }, { a: '/a', b: '/a/b' }]) {
      const { status, text } = await ask(
        caller(),
        'deployments.create',
        { project_id: given.projectId },
        { ...image, volumes },
      )
      expect([status, text]).toEqual([400, expect.stringContaining('volumes.')])
    }
  })

  it('answers the same 404 as for an app that never existed', async () => {
    const id = await given.appRow()
    await expectNotFound(given.server, 'volumes.list', { project_id: given.projectId, app_id: id })
  })
})

describe('PATCH /projects/:project_id/apps/:app_id/volumes', () => {
  it('refuses values that are no volume of the app', async () => {
    const params = { project_id: given.projectId, app_id: await given.appRow() }
    const { status, text } = await ask(caller(), 'volumes.update', params, { delete: ['data'] })
    expect([status, text]).toEqual([400, expect.stringContaining('is not a volume of this app')])
  })

  it('answers the same 404 as for an app that never existed', async () => {
    const id = await given.appRow()
    await expectNotFound(given.server, 'volumes.update', { project_id: given.projectId, app_id: id })
  })
})
