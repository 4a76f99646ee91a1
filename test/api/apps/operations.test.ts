import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ask, expectNotFound, succeed, withKey } from '../../harness/conformance.ts'
import { deployAndSettle, hangingBuild } from '../../harness/deployments.ts'
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

describe('GET /projects/:project_id/apps', () => {
  it('lists newest first, page by page', async () => {
    await given.deploy('older')
    await given.deploy('newer')
    const names: string[] = []
    for await (const { apps } of given.client.apps.list.pages({ params: inProject(), query: { limit: 1 } })) {
      expect(apps).toHaveLength(1)
      names.push(...apps.map(({ name }) => name))
    }
    expect(names.indexOf('newer')).toBeLessThan(names.indexOf('older'))
  })

  it('answers the same 404 as for a project that never existed', async () => {
    expect(await succeed(caller(), 'apps.list', inProject())).toMatchObject({ apps: expect.any(Array) })
    await expectNotFound(given.server, 'apps.list', inProject())
  })
})

describe('GET /projects/:project_id/apps/:id', () => {
  it('shows the serving release and the state of the latest deployment', async () => {
    const first = await given.deploy('both')
    const release = {
      id: first.id,
      status: 'running',
      branch: 'main',
      commit: { hash: first.commit },
      kept: true,
      failure: null,
    }
    const app = await given.appNamed('both')
    expect(app).toMatchObject({ url: first.url, serving: release, latest: release })
    expect(app.latest.duration_ms).toBe(
      Date.parse(app.latest.finished_at ?? '') - Date.parse(app.latest.started_at ?? ''),
    )
    const gone = { name: 'both', git_url: given.source.url, branch: 'gone' }
    const failed = await deployAndSettle(given.client, given.projectId, gone)
    const now = await succeed(caller(), 'apps.get', { ...inProject(), id: app.id })
    expect(now.serving).toMatchObject({ id: first.id, status: 'running' })
    expect(now.latest).toMatchObject({ id: failed.id, status: 'failed', commit: null, failure: { stage: 'fetch' } })
    await given.client.deployments.stop(given.paramsOf(first.id))
    expect((await succeed(caller(), 'apps.get', { ...inProject(), id: app.id })).serving).toBeNull()
  })

  it('answers the same 404 as for an app that never existed', async () => {
    const id = await given.appRow()
    await expectNotFound(given.server, 'apps.get', { ...inProject(), id })
  })
})

describe('PATCH /projects/:project_id/apps/:id', () => {
  it('keeps its address and its releases under another name', async () => {
    const { id, url } = await given.deploy('before')
    const app = await given.appNamed('before')
    const renamed = await succeed(caller(), 'apps.update', { ...inProject(), id: app.id }, { name: ' after ' })
    expect(renamed).toMatchObject({ name: 'after', url, serving: { id } })
    expect(await (await fetch(url)).text()).toBe('here')
    const next = await given.deploy('after')
    expect(next.url).toBe(url)
    await given.deploy('other')
    const taken = await ask(caller(), 'apps.update', { ...inProject(), id: app.id }, { name: 'other' })
    expect([taken.status, taken.text]).toEqual([400, expect.stringContaining('is the name of another app')])
    // The app's own name is no conflict.
    await succeed(caller(), 'apps.update', { ...inProject(), id: app.id }, { name: 'after' })
  })

  it('answers the same 404 as for an app that never existed', async () => {
    const id = await given.appRow()
    await expectNotFound(given.server, 'apps.update', { ...inProject(), id })
  })
})

describe('DELETE /projects/:project_id/apps/:id', () => {
  it('deletes the app with its processes, its builds, and all of its data', async () => {
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

  it('answers the same 404 as for an app that never existed', async () => {
    const id = await given.appRow()
    await expectNotFound(given.server, 'apps.delete', { ...inProject(), id })
  })
})
