import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectNotFound } from '../../harness/conformance.ts'
import { deployAndSettle, hangingBuild } from '../../harness/deployments.ts'
import { nodeApp, type Repository, repository } from '../../harness/repository.ts'
import { ownServer, type TestServer, testServer } from '../../harness/server.ts'

let server: TestServer
let app: Repository
let projectId: string
beforeAll(async () => {
  server = await testServer()
  app = await repository(nodeApp('hello'))
  projectId = (await server.client.projects.create({ body: { name: 'apps', plan: 'enterprise' } })).id
})
afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await app[Symbol.asyncDispose]()
})

const post = (body: unknown) =>
  fetch(`${server.baseUrl}/projects/${projectId}/deployments`, {
    method: 'POST',
    headers: { authorization: `Bearer ${server.apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })

const given = { name: 'a', git_url: 'https://example.com/a' }
const manyVariables = Object.fromEntries(Array.from({ length: 201 }, (_, i) => [`A${i}`, '']))

describe('POST /projects/:project_id/deployments', () => {
  it('answers 201 building with exactly the specified fields, and the address answers later', async () => {
    // A release that answers would hide that the address is open before.
    await using hanging = await repository(hangingBuild)
    const response = await post({ name: 'web', git_url: hanging.url })
    expect(response.status).toBe(201)
    const body = (await response.json()) as Record<string, string>
    expect(Object.keys(body).sort()).toEqual(['created_at', 'id', 'name', 'status', 'url'])
    expect(body).toMatchObject({ name: 'web', status: 'building' })
    expect(response.headers.get('location')).toBe(`/v1/projects/${projectId}/deployments/${body['id']}`)
    const status = () => fetch(String(body['url'])).then((answer) => answer.status, String)
    await expect.poll(status, { timeout: 30_000 }).toBe(503)
    await server.client.deployments.cancel({ params: { project_id: projectId, id: String(body['id']) } })

    const again = await deployAndSettle(server.client, projectId, { name: 'web', git_url: app.url })
    expect(again).toMatchObject({ status: 'running', url: body['url'], branch: 'main', failure: null })
    expect(await (await fetch(again.url)).text()).toBe('hello')
  })

  it.each([
    ['no name', { git_url: 'https://example.com/a.git' }, 'name'],
    ['no git_url', { name: 'a' }, 'git_url'],
    ['an option as git_url', { name: 'a', git_url: '--upload-pack=touch /tmp/x' }, 'git_url'],
    ['an option without a space', { name: 'a', git_url: '--upload-pack=x' }, 'git_url'],
    ["git's helper ext", { name: 'a', git_url: 'ext::sh -c touch% /tmp/x' }, 'git_url'],
    ["git's helper ext, short", { name: 'a', git_url: 'ext::x' }, 'git_url'],
    ['a semicolon and a command', { name: 'a', git_url: 'https://example.com/a.git; touch /tmp/x' }, 'git_url'],
    ['a newline', { name: 'a', git_url: 'https://example.com/a.git\ntouch /tmp/x' }, 'git_url'],
    ['a folder that is no repository', { name: 'a', git_url: 'file:///etc' }, 'git_url'],
    ['a host in a file address', { name: 'a', git_url: 'file://host/etc' }, 'git_url'],
    ['a plain path', { name: 'a', git_url: '/etc' }, 'git_url'],
    ['another protocol', { name: 'a', git_url: 'git://example.com/a.git' }, 'git_url'],
    ['a host that is an option', { name: 'a', git_url: 'ssh://-oProxyCommand=x/a' }, 'git_url'],
    ['an scp path that is an option', { name: 'a', git_url: 'git@example.com:-x' }, 'git_url'],
    ['credentials', { name: 'a', git_url: 'https://user:token@example.com/a.git' }, 'git_url'],
    ['a backslash', { name: 'a', git_url: 'https://example.com\\@evil.example/a.git' }, 'git_url'],
    [
      'a branch that is an option',
      { name: 'a', git_url: 'https://example.com/a.git', branch: '--upload-pack=x' },
      'branch',
    ],
    ['a branch with a newline', { name: 'a', git_url: 'https://example.com/a.git', branch: 'a\nb' }, 'branch'],
    ['a branch with two dots', { name: 'a', git_url: 'https://example.com/a.git', branch: 'a..b' }, 'branch'],
    ['a refspec as branch', { name: 'a', git_url: 'https://example.com/a.git', branch: 'main:refs/x' }, 'branch'],
    ['an empty branch', { name: 'a', git_url: 'https://example.com/a.git', branch: '' }, 'branch'],
    ['a variable that is no name', { name: 'a', git_url: 'https://e.com/a', env_vars: { '1A': 'x' } }, 'env_vars.1A'],
    ['a variable that is no string', { name: 'a', git_url: 'https://e.com/a', env_vars: { A: 1 } }, 'env_vars.A'],
    ['a lone surrogate in a variable', { ...given, env_vars: { A: 'aaaaaaaaaa\ud800' } }, 'env_vars.A'],
    ['more than a process can receive', { ...given, env_vars: { A: 'x'.repeat(40_000) } }, 'env_vars.A'],
    ['too many variables', { ...given, env_vars: manyVariables }, 'env_vars'],
    ["the platform's variable", { name: 'a', git_url: 'https://e.com/a', env_vars: { PORT: '1' } }, 'env_vars.PORT'],
  ])('refuses %s and names the field', async (_, body, field) => {
    const response = await post(body)
    expect(await response.json()).toMatchObject({ error: { code: 'invalid_request', details: { field } } })
    expect(response.status).toBe(400)
  })

  it('refuses file: addresses outside local mode', async () => {
    await using other = await ownServer({ FAIRLEAD_PUBLIC_HOST: 'apps.example.com' })
    const project = await other.client.projects.create({ body: { name: 'p' } })
    await expect(
      other.client.deployments.create({ params: { project_id: project.id }, body: { name: 'a', git_url: app.url } }),
    ).rejects.toMatchObject({ code: 'invalid_request', details: { field: 'git_url' } })
  })

  it('is refused without enough space on the disk', async () => {
    await using full = await ownServer({ FAIRLEAD_RESERVE_MB: '999999999' })
    const { id } = await full.client.projects.create({ body: { name: 'full' } })
    const params = { project_id: id }
    const creating = full.client.deployments.create({ params, body: { name: 'a', git_url: app.url } })
    await expect(creating).rejects.toMatchObject({
      code: 'server_error',
      message: expect.stringContaining('nearly full'),
    })
    expect((await full.client.deployments.list({ params })).deployments).toEqual([])
  })

  it('refuses an app beyond the plan’s limit; an app that never ran does not count', async () => {
    const { id } = await server.client.projects.create({ body: { name: 'small' } })
    const create = (name: string, git_url: string) =>
      server.client.deployments.create({ params: { project_id: id }, body: { name, git_url } })
    const refused = { code: 'invalid_request', details: { field: 'name', most_apps: 5 } }
    await deployAndSettle(server.client, id, { name: 'broken', git_url: 'http://127.0.0.1:9/a.git' })
    // A host that never answers keeps the deployments building until the end of the test.
    const silent = createServer().listen(0, '127.0.0.1')
    await once(silent, 'listening')
    const slow = `http://127.0.0.1:${(silent.address() as AddressInfo).port}/a.git`
    // All at the same time, so that none of them sees the others.
    const tries = await Promise.allSettled(['a', 'b', 'c', 'd', 'e', 'f', 'g'].map((name) => create(name, slow)))
    const made = tries.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []))
    const errors = tries.flatMap((each) => (each.status === 'rejected' ? [each.reason] : []))
    expect(made).toHaveLength(5)
    expect(errors).toMatchObject([refused, refused])
    // It would be the sixth from now on.
    await expect(create('broken', slow)).rejects.toMatchObject(refused)
    // Another release of an app adds no app.
    made.push(await create(String(made[0]?.name), slow))
    for (const each of made) {
      await server.client.deployments.cancel({ params: { project_id: id, id: each.id } }).catch(() => undefined)
    }
    await create('broken', 'http://127.0.0.1:9/a.git')
    silent.close()
  })

  it('answers the same 404 as for a project that never existed', () =>
    expectNotFound(server, 'deployments.create', { project_id: projectId }))
})
