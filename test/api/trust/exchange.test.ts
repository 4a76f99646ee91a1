import { tmpdir } from 'node:os'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { settled } from '../../harness/deployments.ts'
import { repository } from '../../harness/repository.ts'
import { type TrustScene, trustScene } from './support.ts'

let scene: TrustScene
beforeAll(async () => {
  scene = await trustScene({ FAIRLEAD_FILE_SOURCES: tmpdir() })
  await scene.trust({ branch: 'main' })
})
afterAll(() => scene[Symbol.asyncDispose]())

const keyOf = async (claims = {}) => (await scene.exchange(await scene.token(claims))).body.api_key
const entries = async () => (await scene.user.client.auditLog.list({ query: { limit: 50 } })).entries

describe('POST /oidc/token', () => {
  it('exchanges the token of a trusted run for a key that may only deploy to that project, for 15 minutes', async () => {
    const { status, body } = await scene.exchange(await scene.token())
    expect(status).toBe(201)
    expect(Object.keys(body)).toEqual(['api_key', 'expires_at'])
    expect(Date.parse(body.expires_at) - Date.now()).toBeGreaterThan(14 * 60_000)
    expect(Date.parse(body.expires_at) - Date.now()).toBeLessThanOrEqual(15 * 60_000)
    const client = scene.server.clientFor(body.api_key)
    expect((await client.projects.list()).projects.map(({ id }) => id)).toEqual([scene.projectId])
    await expect(client.projects.create({ body: { name: 'x' } })).rejects.toMatchObject({ code: 'forbidden' })
    await expect(client.databases.list({ params: { project_id: scene.projectId } })).rejects.toMatchObject({
      code: 'forbidden',
    })
    const other = await scene.user.client.projects.create({ body: { name: 'other' } })
    await expect(client.deployments.list({ params: { project_id: other.id } })).rejects.toMatchObject({
      code: 'forbidden',
    })
  })

  it('shows the key in the list as the run’s key, with a link to the run', async () => {
    const key = await keyOf({ run_id: '424242' })
    const listed = (await scene.user.client.apiKeys.list()).api_keys.find(({ hint }) => hint === key.slice(0, 7))
    expect(listed).toMatchObject({
      name: 'Workflow of acme/shop',
      preset: 'deploy',
      project_ids: [scene.projectId],
      workflow: {
        repository: 'acme/shop',
        run_url: `${scene.issuer.url}/acme/shop/actions/runs/424242`,
        actor: 'octocat',
        event: 'push',
        ref: 'refs/heads/main',
        workflow: 'deploy.yml',
        environment: null,
      },
    })
  })

  it('writes the exchange into the audit log, with its claims and the deciding rule', async () => {
    const key = await keyOf({ run_id: '515151' })
    const [entry] = await entries()
    const [rule] = (await scene.user.client.trust.list({ params: { project_id: scene.projectId } })).trust
    expect(entry).toMatchObject({
      actor: { type: 'workflow', id: null, name: 'acme/shop' },
      operation: 'oidc.exchange',
      project_id: scene.projectId,
      resource_id: expect.stringMatching(/^key_/),
      details: {
        trust_id: rule?.id,
        claims: { run_id: '515151', repository_id: '700100200', sub: expect.any(String) },
      },
    })
    expect(JSON.stringify(entry)).not.toContain(key)
    expect(rule?.last_used_at).not.toBeNull()
  })

  it('writes a refusal into the audit log only when the trusted issuer has signed the token', async () => {
    await scene.exchange(await scene.token({ ref: 'refs/heads/other' }))
    const [entry] = await entries()
    expect(entry).toMatchObject({
      operation: 'oidc.exchange_failed',
      details: { reason: 'branch', claims: { ref: 'refs/heads/other' } },
    })
    const token = await scene.token()
    expect((await scene.exchange(`${token.slice(0, -8)}AAAAAAAA`)).status).toBe(401)
    expect((await entries())[0]).toEqual(entry)
  })

  it('shows which run created a deployment, and its commit’s message', async () => {
    // An unbuildable commit: the server reads it during the fetch.
    await using source = await repository({ 'README.txt': 'hello' })
    const message = `Ship it\n\nwith \u001b[31mcolours\u0007, a\ttab and the password a-long-password\n${'x'.repeat(3_000)}`
    const author = `Mona\u001b[1m Lisa <mona@example.com>`
    await source.git('commit', '--quiet', '--allow-empty', '--author', author, '--message', message)
    const client = scene.server.clientFor(await keyOf({ run_id: '99', actor: 'monalisa', event_name: 'push' }))
    const params = { project_id: scene.projectId }
    const body = { name: 'web', git_url: source.url, env_vars: { PASSWORD: 'a-long-password' } }
    const { id } = await client.deployments.create({ params, body })
    await settled(client, scene.projectId, id)
    const found = await client.deployments.get({ params: { ...params, id } })
    expect(found.trigger).toEqual({
      kind: 'workflow',
      name: 'Workflow of acme/shop',
      repository: 'acme/shop',
      run_url: `${scene.issuer.url}/acme/shop/actions/runs/99`,
      actor: 'monalisa',
      event: 'push',
    })
    expect(found.commit_message).toMatch(/^Ship it\n\nwith \[31mcolours, a tab and the password \*\*\*\nx+$/)
    expect(found.commit_message?.length).toBeLessThanOrEqual(1_000)
    expect(found.commit_author).toBe('Mona [1m Lisa')
  })
})

describe('DELETE /oidc/token', () => {
  it('ends the key at once, and no other key', async () => {
    const key = await keyOf()
    const other = await keyOf()
    expect(await scene.end(key)).toBe(204)
    await expect(scene.server.clientFor(key).projects.list()).rejects.toMatchObject({ code: 'unauthorized' })
    expect((await scene.server.clientFor(other).projects.list()).total).toBe(1)
    expect((await entries())[0]).toMatchObject({ operation: 'oidc.end', actor: { type: 'key' } })
    expect(await scene.end(key)).toBe(401)
  })

  it('refuses a key without an exchange', async () => {
    expect(await scene.end(scene.server.apiKey)).toBe(403)
    expect((await scene.server.client.projects.list()).total).toBeGreaterThan(0)
  })
})

describe('a rule', () => {
  it('that is removed allows nothing any more, and its keys stop working', async () => {
    const project = await scene.trustingProject()
    const { body } = await scene.exchange(await scene.token(), project)
    const client = scene.server.clientFor(body.api_key)
    const params = { project_id: project }
    expect((await client.deployments.list({ params })).deployments).toEqual([])
    const [rule] = (await scene.user.client.trust.list({ params })).trust
    await scene.user.client.trust.delete({ params: { ...params, id: rule?.id ?? '' } })
    await expect(client.deployments.list({ params })).rejects.toMatchObject({ code: 'unauthorized' })
    expect((await scene.exchange(await scene.token(), project)).body.error.details.reason).toBe('issuer_not_trusted')
  })
})
