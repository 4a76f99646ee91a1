import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ask, expectNotFound, succeed, withKey } from '../../harness/conformance.ts'
import { hangingBuild } from '../../harness/deployments.ts'
import { type ServerWithProject, serverWithProject } from '../../harness/project.ts'
import { releasesOnDisk } from '../../harness/releases.ts'
import { repository } from '../../harness/repository.ts'

let given: ServerWithProject
beforeAll(async () => {
  given = await serverWithProject()
})
afterAll(() => given?.[Symbol.asyncDispose]())

const caller = () => withKey(given.server, given.server.apiKey)
const inProject = () => ({ project_id: given.projectId })

describe('DELETE /projects/:project_id/apps/:id', () => {
  it('is deleted with what runs, what builds, and everything that was kept', async () => {
    await using slow = await repository(hangingBuild)
    const kept = await given.deploy('goes')
    const running = await given.deploy('goes')
    const building = await given.create('goes', slow.url)
    await expect
      .poll(async () => (await given.client.deployments.get(given.paramsOf(building.id))).started_at, {
        timeout: 30_000,
      })
      .not.toBeNull()
    const app = await given.appNamed('goes')
    await succeed(caller(), 'apps.delete', { ...inProject(), id: app.id })
    const gone = await ask(caller(), 'apps.get', { ...inProject(), id: app.id })
    expect(gone.status).toBe(404)
    await expect(given.client.deployments.get(given.paramsOf(running.id))).rejects.toMatchObject({ code: 'not_found' })
    await expect.poll(() => fetch(running.url).catch(() => 'closed'), { timeout: 30_000 }).toBe('closed')
    await expect
      .poll(() => releasesOnDisk(given.server.dataDirectory), { timeout: 30_000 })
      .not.toContainEqual(expect.stringMatching(`${app.id}|${kept.id}|${running.id}|${building.id}`))
    // The name is free at once.
    const again = await given.deploy('goes')
    expect(again.status).toBe('running')
    expect((await given.appNamed('goes')).id).not.toBe(app.id)
  })

  it('answers 404 with the body of an app that never existed', async () => {
    const id = await given.appRow()
    await expectNotFound(given.server, 'apps.delete', { ...inProject(), id })
  })
})
