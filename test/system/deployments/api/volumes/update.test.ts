import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ask, expectNotFound, succeed, withKey } from '../../../../harness/conformance.ts'
import { type ServerWithProject, serverWithProject } from '../../../../harness/project.ts'
import { repository } from '../../../../harness/repository.ts'
import { keepingApp } from '../../../../harness/volumes.ts'

let given: ServerWithProject
beforeAll(async () => {
  given = await serverWithProject()
})
afterAll(() => given?.[Symbol.asyncDispose]())

const caller = () => withKey(given.server, given.server.apiKey)

describe('PATCH /projects/:project_id/apps/:app_id/volumes', () => {
  it('deletes a volume that no release names any more, and no other one; with the app all are gone', async () => {
    await using two = await repository(keepingApp({ data: '/srv/data', old: '/srv/old' }))
    await using one = await repository(keepingApp({ data: '/srv/data' }))
    await given.deploy('shop', two.url)
    const app_id = (await given.appNamed('shop')).id
    const params = { project_id: given.projectId, app_id }
    const refused = async (...names: string[]) => {
      const { status, text } = await ask(caller(), 'volumes.update', params, { delete: names })
      expect(status).toBe(400)
      return text
    }
    expect(await refused('old')).toContain('is in use: deploy a release that does not name it first')
    expect(await given.deploy('shop', one.url)).toMatchObject({ status: 'running' })
    for (const name of ['none', '..', '../data', '.', 'data/files', '']) {
      expect(await refused(name)).toContain('is no volume of this app')
    }
    expect(await refused('old', 'data')).toContain('is in use')
    const { volumes } = await succeed(caller(), 'volumes.update', params, { delete: ['old'] })
    expect(volumes).toMatchObject([{ name: 'data', path: '/srv/data' }])

    const folder = join(given.server.dataDirectory, 'apps', app_id)
    expect(await readdir(join(folder, 'volumes'))).not.toContain('old')
    await given.client.apps.delete({ params: { project_id: given.projectId, id: app_id } })
    await expect.poll(() => readdir(folder).catch(() => null), { timeout: 30_000 }).toBe(null)
  }, 120_000)

  it('answers 404 with the body of an app that never existed', async () => {
    await given.deploy('mine')
    const { id } = await given.appNamed('mine')
    await expectNotFound(given.server, 'volumes.update', { project_id: given.projectId, app_id: id })
  })
})
