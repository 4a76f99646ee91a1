import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectNotFound, succeed, withKey } from '../../harness/conformance.ts'
import { deployAndSettle } from '../../harness/deployments.ts'
import { type ServerWithProject, serverWithProject } from '../../harness/project.ts'

let given: ServerWithProject
beforeAll(async () => {
  given = await serverWithProject()
})
afterAll(() => given?.[Symbol.asyncDispose]())

const caller = () => withKey(given.server, given.server.apiKey)
const inProject = () => ({ project_id: given.projectId })

describe('GET /projects/:project_id/apps/:id', () => {
  it('says which release serves it, and what became of the latest one', async () => {
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

  it('answers 404 with the body of an app that never existed', async () => {
    const id = await given.appRow()
    await expectNotFound(given.server, 'apps.get', { ...inProject(), id })
  })
})
