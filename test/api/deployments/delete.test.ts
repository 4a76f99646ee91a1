import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectNotFound } from '../../harness/conformance.ts'
import { hangingBuild } from '../../harness/deployments.ts'
import { type ServerWithProject, serverWithProject } from '../../harness/project.ts'
import { releasesOnDisk } from '../../harness/releases.ts'
import { repository } from '../../harness/repository.ts'

let given: ServerWithProject
beforeAll(async () => {
  given = await serverWithProject()
})
afterAll(() => given?.[Symbol.asyncDispose]())

describe('DELETE /projects/:project_id/deployments/:id', () => {
  it('removes a stopped deployment with its files and log; removing an app’s last deployment frees its address', async () => {
    const first = await given.deploy('goes')
    const second = await given.deploy('goes')
    await expect(given.client.deployments.delete(given.paramsOf(second.id))).rejects.toMatchObject({
      code: 'invalid_request',
      message: 'This deployment is running and cannot be deleted. Stop it first.',
    })
    await given.client.deployments.stop(given.paramsOf(second.id))
    await given.client.deployments.delete(given.paramsOf(second.id))
    await expect(given.client.deployments.get(given.paramsOf(second.id))).rejects.toMatchObject({ code: 'not_found' })
    await expect(given.client.deployments.delete(given.paramsOf(second.id))).rejects.toMatchObject({
      code: 'not_found',
    })
    await expect.poll(async () => (await fetch(first.url)).status).toBe(503)
    await given.client.deployments.delete(given.paramsOf(first.id))
    await expect.poll(() => fetch(first.url).catch(() => 'closed'), { timeout: 30_000 }).toBe('closed')
    await expect
      .poll(() => releasesOnDisk(given.server.dataDirectory), { timeout: 30_000 })
      .not.toContainEqual(expect.stringMatching(`${first.id}|${second.id}`))
  })

  it('makes room for another app when the project has as many as its plan allows', async () => {
    const small = await given.client.projects.create({ body: { name: 'small' } })
    const params = { project_id: small.id }
    const create = (name: string) =>
      given.client.deployments.create({ params, body: { name, git_url: given.source.url } })
    const made = await Promise.all(['a', 'b', 'c', 'd', 'e', 'f', 'g'].map((name) => create(name).catch(String)))
    const refused = made.filter((each) => typeof each === 'string')
    expect(refused).toHaveLength(2)
    expect(refused[0]).toContain('the plan free of this project allows 5 apps')
    const [accepted] = made.filter((each) => typeof each !== 'string')
    await create(String(accepted?.name))
    const { deployments } = await given.client.deployments.list({ params })
    for (const { id } of deployments.filter(({ name }) => name === accepted?.name)) {
      await given.client.deployments.cancel({ params: { ...params, id } }).catch(() => undefined)
      await given.client.deployments.stop({ params: { ...params, id } }).catch(() => undefined)
      await given.client.deployments.delete({ params: { ...params, id } })
    }
    await create('another')
    for (const { id } of (await given.client.deployments.list({ params })).deployments) {
      await given.client.deployments.cancel({ params: { ...params, id } }).catch(() => undefined)
    }
  })

  it('refuses a deployment that is building', async () => {
    await using hanging = await repository(hangingBuild)
    const { id } = await given.create('hangs', hanging.url)
    await expect(given.client.deployments.delete(given.paramsOf(id))).rejects.toMatchObject({
      code: 'invalid_request',
      message: 'This deployment is building and cannot be deleted. Cancel it first.',
    })
    await given.client.deployments.cancel(given.paramsOf(id))
    await given.client.deployments.delete(given.paramsOf(id))
  })

  it('answers the same 404 as for an id that never existed', async () => {
    const { id } = await given.create('mine', 'https://127.0.0.1:1/a.git')
    await expectNotFound(given.server, 'deployments.delete', { project_id: given.projectId, id })
  })
})
