import { readdir } from 'node:fs/promises'
import { request } from 'node:http'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { bundleOf, shallowBundle, uploadBundle } from '../../harness/bundle.ts'
import { deployAndSettle } from '../../harness/deployments.ts'
import { nodeApp, type Repository, repository } from '../../harness/repository.ts'
import { ownServer, type TestServer } from '../../harness/server.ts'

let server: TestServer
let projectId: string
let app: Repository
beforeAll(async () => {
  server = await ownServer({ FAIRLEAD_UPLOAD_IDLE_TIMEOUT: '1' })
  projectId = (await server.client.projects.create({ body: { name: 'p', plan: 'starter' } })).id
  app = await repository(nodeApp('first'))
  await app.commit(nodeApp('uploaded'))
})
afterAll(async () => {
  await app[Symbol.asyncDispose]()
  await server[Symbol.asyncDispose]()
})

const upload = (bundle: Uint8Array, headers: Record<string, string> = {}) =>
  fetch(`${server.baseUrl}/projects/${projectId}/sources`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${server.apiKey}`,
      'content-type': 'application/x-git-bundle',
      ...headers,
    },
    body: new Uint8Array(bundle),
  })
const stored = () => readdir(join(server.dataDirectory, 'sources')).catch(() => [])
const deploy = (name: string, source_id: string, more = {}) =>
  deployAndSettle(server.client, projectId, { name, source_id, ...more })

describe('POST /projects/:project_id/sources', () => {
  describe('an uploaded source', () => {
    it('is answered with its commit, and deployed unchanged', async () => {
      const commit = await app.git('rev-parse', 'HEAD')
      const bundle = await bundleOf(app, 'main')
      const response = await upload(bundle)
      expect(response.status).toBe(201)
      const source = (await response.json()) as { id: string }
      expect(source).toEqual({
        id: expect.stringMatching(/^src_/),
        created_at: expect.any(String),
        size: bundle.length,
        commit,
        branch: 'main',
      })
      const made = await deploy('web', source.id)
      expect(made).toMatchObject({ status: 'running', git_url: null, source_id: source.id, commit, branch: 'main' })
      expect(await (await fetch(made.url)).text()).toBe('uploaded')
    })

    it('is redeployed with other variables, and rolled back to without a build', async () => {
      const { id: source_id } = await uploadBundle(server.client, projectId, await bundleOf(app, 'HEAD'))
      const first = await deploy('twice', source_id, { env_vars: { A: '1', B: '2' } })
      const second = await deploy('twice', source_id, { keep_env_vars: ['A'] })
      expect([first.status, second.status, second.env_var_names]).toEqual(['running', 'running', ['A']])
      const params = { project_id: projectId, id: first.id }
      await server.client.deployments.rollback({ params })
      await expect.poll(async () => (await server.client.deployments.get({ params })).status).toBe('running')
    })

    it('gets no variables of a repository, and gives it none', async () => {
      const { id: source_id } = await uploadBundle(server.client, projectId, await bundleOf(app, 'main'))
      await deployAndSettle(server.client, projectId, { name: 'mixed', git_url: app.url, env_vars: { SECRET: 'x' } })
      const refused = { code: 'invalid_request', details: { field: 'keep_env_vars' } }
      await expect(deploy('mixed', source_id, { keep_env_vars: ['SECRET'] })).rejects.toMatchObject(refused)
      await deploy('mixed', source_id, { env_vars: { SECRET: 'y' } })
      const back = { name: 'mixed', git_url: app.url, keep_env_vars: ['SECRET'] }
      await expect(deployAndSettle(server.client, projectId, back)).rejects.toMatchObject(refused)
    })

    it('of a commit without its history is deployed', async () => {
      const commit = await app.git('rev-parse', 'HEAD')
      const shallow = await shallowBundle(app, commit)
      const { id } = await uploadBundle(server.client, projectId, shallow)
      expect(await deploy('shallow', id)).toMatchObject({ status: 'running', commit })
    })

    it('of names in SHA-256 is deployed', async () => {
      await using source = await repository({})
      await source.git('init', '--quiet', '--object-format=sha256', '--initial-branch', 'main', 'sub')
      const path = join(source.path, 'sub')
      await using inner = { ...source, path, [Symbol.asyncDispose]: async () => undefined }
      await source.git('-C', 'sub', 'commit', '--quiet', '--allow-empty', '--message', 'x')
      const { id, commit } = await uploadBundle(server.client, projectId, await bundleOf(inner, 'main'))
      expect(commit).toHaveLength(64)
      expect((await deploy('sha256', id)).failure).toMatchObject({ stage: 'plan' })
    })

    it('whose objects are missing fails with advice', async () => {
      const whole = await bundleOf(app, 'main')
      const other = Buffer.from(whole)
      // A commit that the pack does not contain.
      const at = whole.indexOf('\n') + 1
      other.write(String.fromCharCode(whole[at] ?? 0) === '0' ? '1' : '0', at)
      const { id } = await uploadBundle(server.client, projectId, other)
      expect((await deploy('other', id)).failure).toMatchObject({ stage: 'fetch', code: 'unknown_commit' })
    })
  })

  describe('an upload is refused', () => {
    it.each<[string, () => Promise<Response>, string]>([
      ['of another media type', () => upload(Buffer.from('x'), { 'content-type': 'application/json' }), 'content-type'],
      ['that is compressed', () => upload(Buffer.from('x'), { 'content-encoding': 'gzip' }), 'content-encoding'],
      ['that is not a bundle', () => upload(Buffer.from('no bundle')), 'body'],
      ['without a body', () => upload(Buffer.alloc(0)), 'body'],
      ['that is truncated', async () => upload((await bundleOf(app, 'main')).subarray(0, -30)), 'body'],
    ])('%s', async (_, send, field) => {
      const before = await stored()
      const response = await send()
      expect(response.status).toBe(400)
      expect(await response.json()).toMatchObject({ error: { code: 'invalid_request', details: { field } } })
      expect(await stored()).toEqual(before)
    })

    it('that is larger than a file of the plan, before it is sent', async () => {
      const sent = request(`${server.baseUrl}/projects/${projectId}/sources`, { method: 'POST', agent: false })
      sent.setHeader('Authorization', `Bearer ${server.apiKey}`)
      sent.setHeader('Content-Type', 'application/x-git-bundle')
      sent.setHeader('Content-Length', 1_000_000_001)
      sent.flushHeaders()
      const status = await new Promise((done) => sent.on('response', (response) => done(response.statusCode)))
      sent.on('error', () => undefined).destroy()
      expect(status).toBe(400)
    })

    it('that stops, and leaves nothing', async () => {
      const before = await stored()
      const sent = request(`${server.baseUrl}/projects/${projectId}/sources`, { method: 'POST', agent: false })
      sent.setHeader('Authorization', `Bearer ${server.apiKey}`)
      sent.setHeader('Content-Type', 'application/x-git-bundle')
      sent.on('error', () => undefined).write('# v2 git')
      const status = await new Promise((done) => sent.on('response', (response) => done(response.statusCode)))
      sent.destroy()
      expect(status).toBe(400)
      await expect.poll(stored).toEqual(before)
    })
  })

  describe('a deployment', () => {
    it.each<[string, object, string]>([
      ['without a source', { name: 'a' }, 'git_url'],
      ['of two sources', { name: 'a', git_url: 'https://example.com/a', source_id: 'src_x' }, 'source_id'],
      ['of a source and a branch', { name: 'a', source_id: 'src_x', branch: 'main' }, 'branch'],
      ['of a source and a token', { name: 'a', source_id: 'src_x', git_token: 'x' }, 'git_token'],
      ['of a source that never existed', { name: 'a', source_id: 'src_01h455vb4pex5vsknk084sn02q' }, 'source_id'],
      ['of something else than a source', { name: 'a', source_id: 'x' }, 'source_id'],
    ])('%s is refused', async (_, body, field) => {
      const create = server.client.deployments.create({
        params: { project_id: projectId },
        body: body as { name: string },
      })
      await expect(create).rejects.toMatchObject({ code: 'invalid_request', details: { field } })
    })

    it("of another project's or account's source is refused like a random id", async () => {
      const { id: source_id } = await uploadBundle(server.client, projectId, await bundleOf(app, 'main'))
      const account = await server.accounts.create({ name: 'other', plan: 'free' })
      const foreign = server.clientFor(await server.key({ accountId: account.id }))
      for (const client of [server.client, foreign]) {
        const { id: project_id } = await client.projects.create({ body: { name: 'other' } })
        const create = client.deployments.create({ params: { project_id }, body: { name: 'a', source_id } })
        await expect(create).rejects.toMatchObject({ code: 'invalid_request', details: { field: 'source_id' } })
      }
    })
  })

  it('the removal of a project removes its sources', async () => {
    const { id: project_id } = await server.client.projects.create({ body: { name: 'gone' } })
    const { id } = await uploadBundle(server.client, project_id, await bundleOf(app, 'main'))
    expect(await stored()).toContain(`${id}.pack`)
    await server.client.projects.delete({ params: { project_id } })
    await expect.poll(stored).not.toContain(`${id}.pack`)
  })
})
