import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectNotFound, succeed, withKey } from '../../harness/conformance.ts'
import { type ServerWithProject, serverWithProject } from '../../harness/project.ts'
import { nodeApp, repository } from '../../harness/repository.ts'

let given: ServerWithProject
beforeAll(async () => {
  given = await serverWithProject()
})
afterAll(() => given?.[Symbol.asyncDispose]())

const caller = () => withKey(given.server, given.server.apiKey)
const inProject = () => ({ project_id: given.projectId })

describe('GET /projects/:project_id/apps/:app_id/releases', () => {
  it('lists the releases of one app, newest first, by state, branch and text', async () => {
    await using source = await repository(nodeApp('one'))
    await source.git('checkout', '-q', '-b', 'Feature/Login')
    const author = ['-c', 'user.name=Ada Lovelace', '-c', 'user.email=ada@example.com']
    await source.git(...author, 'commit', '-q', '--allow-empty', '-m', 'Adds the login\n\nIn full.')
    await source.git('checkout', '-q', 'main')
    const create = (body: object) =>
      given.client.deployments.create({ params: inProject(), body: { name: 'listed', git_url: source.url, ...body } })
    const first = await given.end((await create({})).id)
    const second = await given.end((await create({ branch: 'Feature/Login' })).id)
    const third = await given.end((await create({ branch: 'none' })).id)
    await given.deploy('unlisted')
    const app = await given.appNamed('listed')
    const params = { ...inProject(), app_id: app.id }
    const listed = async (query: object) =>
      (await given.client.releases.list({ params, query })).releases.map(({ id }) => id)
    expect(await listed({})).toEqual([third.id, second.id, first.id])
    expect(await listed({ limit: 2 })).toEqual([third.id, second.id])
    expect(await listed({ status: 'failed' })).toEqual([third.id])
    expect(await listed({ branch: 'Feature/Login' })).toEqual([second.id])
    expect(await listed({ search: 'login' })).toEqual([second.id])
    expect(await listed({ search: first.commit?.slice(0, 7).toUpperCase() })).toEqual([first.id])
    expect(await listed({ search: third.id })).toEqual([third.id])
    expect(await listed({ search: '%' })).toEqual([])
    expect(await listed({ search: 'ADDS THE LOGIN' })).toEqual([second.id])
    expect(await listed({ search: 'ada love' })).toEqual([second.id])
    await succeed(caller(), 'releases.list', params)
    const wrong = given.client.releases.list({ params, query: { status: 'gone' as 'failed' } })
    await expect(wrong).rejects.toMatchObject({ code: 'invalid_request', details: { field: 'status' } })
    await expectNotFound(given.server, 'releases.list', params)
  })

  it('shows the commit of each release, and its latest cause: its creation, a rollback or a restart', async () => {
    await using source = await repository(nodeApp('told'))
    const author = ['-c', 'user.name=Ada Lovelace', '-c', 'user.email=ada@example.com']
    await source.git(...author, 'commit', '-q', '--allow-empty', '-m', 'Tells more\n\nIn full.')
    const body = { name: 'told', git_url: source.url }
    const params = { ...inProject(), app_id: '' }
    const first = await given.end((await given.client.deployments.create({ params: inProject(), body })).id)
    params.app_id = (await given.appNamed('told')).id
    const listed = async () => (await given.client.releases.list({ params })).releases
    const by = { by: 'key', name: 'test', repository: null, run_url: null, actor: null, event: null }
    expect((await listed())[0]).toMatchObject({
      commit: {
        hash: first.commit,
        message: 'Tells more\n\nIn full.',
        author: 'Ada Lovelace',
        at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.000Z$/),
      },
      trigger: { kind: 'key', ...by },
    })
    await given.client.deployments.restart({ params: { ...inProject(), id: first.id } })
    await given.end(first.id)
    expect((await listed())[0]).toMatchObject({ trigger: { kind: 'restart', ...by } })
    await given.end((await given.client.deployments.create({ params: inProject(), body })).id)
    await given.client.deployments.rollback({ params: { ...inProject(), id: first.id } })
    await given.end(first.id)
    expect(await listed()).toMatchObject([{ trigger: { kind: 'key' } }, { trigger: { kind: 'rollback', ...by } }])
  })
})
