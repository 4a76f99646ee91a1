import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createIssuerKeys } from '../../../server/src/features/accounts/trust/issuer-keys.ts'
import { createOutbound } from '../../../server/src/platform/outbound.ts'
import { oidcIssuer } from '../../harness/oidc-issuer.ts'
import { type TrustScene, trustScene } from './support.ts'

let scene: TrustScene
beforeAll(async () => {
  scene = await trustScene()
  await scene.trust()
})
afterAll(() => scene[Symbol.asyncDispose]())

describe('an attacker with an issuer', () => {
  it('gets no more keys than the account has requests', async () => {
    const limit = (most: number | null) =>
      scene.server.database.query('update accounts set requests_per_hour = $1', [most])
    const { rate_limit: before } = await scene.server.client.account.get()
    await limit(before.used + 4)
    try {
      const answers = []
      for (let i = 0; i < 6; i++) answers.push(await scene.exchange(await scene.token()))
      const made = answers.filter(({ status }) => status === 201).length
      expect(made).toBeGreaterThan(0)
      expect(made).toBeLessThanOrEqual(4)
      expect(answers.at(-1)).toMatchObject({ status: 429, body: { error: { code: 'rate_limit_exceeded' } } })
      expect(answers.at(-1)?.body.error.details).toHaveProperty('retry_after')
    } finally {
      await limit(null)
    }
    expect((await scene.exchange(await scene.token())).status).toBe(201)
  })

  it.each([
    ['a modulus of a million bits', { n: Buffer.alloc(130_000, 0xab).toString('base64url') }],
    ['a huge exponent', { e: Buffer.alloc(256, 0xff).toString('base64url') }],
    ['an even modulus', { n: Buffer.alloc(512, 0xaa).toString('base64url') }],
    ['an unsupported curve', { kty: 'EC', crv: 'P-256', x: 'AA', y: 'AA' }],
  ])('cannot stop the server by a key with %s', async (_, key) => {
    await using issuer = await oidcIssuer()
    issuer.jwks[0] = { ...issuer.key.publicJwk, ...key }
    const project = await scene.trustingProject({ issuer: issuer.url })
    const tokens = await Promise.all(Array.from({ length: 10 }, () => issuer.workflowToken(scene.server.url)))
    // The CPU time of the server, which runs in this process: other programs may delay it.
    const before = process.cpuUsage()
    const answers = await Promise.all(tokens.map((token) => scene.exchange(token, project)))
    const { user, system } = process.cpuUsage(before)
    expect((user + system) / 1e6).toBeLessThan(10)
    for (const { body } of answers) expect(body.error.details.reason).toMatch(/^(unusable_key|unknown_key|signature)$/)
  })
})

describe('the address of an issuer', () => {
  const outbound = (allow: string[] = []) => createOutbound({ mode: 'public', allow, ports: [] })

  it.each([
    'https://169.254.169.254',
    'https://[::ffff:169.254.169.254]',
    'https://[::1]:8443',
    'https://[fd00:ec2::254]',
    'https://[64:ff9b::7f00:1]',
    'https://[2002:7f00:1::]',
    'https://0x7f000001:8443',
    'https://2130706433:8443',
    'https://127.1:8443',
    'https://localhost:8443',
    'https://idp.localhost.:8443',
    'https://10.0.0.1:22',
  ])('is not contacted where it is %s', async (issuer) => {
    await expect(createIssuerKeys(outbound()).of(issuer)).rejects.toMatchObject({ reason: 'issuer_unreachable' })
  })

  it('that changes between the look-up and the connection leads nowhere', async () => {
    let asked = 0
    const rebinding = createOutbound({
      mode: 'public',
      allow: [],
      ports: [],
      resolveName: async () => [{ address: asked++ === 0 ? '93.184.215.14' : '127.0.0.1', family: 4 }],
    })
    const before = scene.issuer.requests.length
    const issuer = scene.issuer.url.replace('localhost', 'rebinding.example')
    await expect(createIssuerKeys(rebinding).of(issuer)).rejects.toMatchObject({ reason: 'issuer_unreachable' })
    expect(asked).toBe(2)
    expect(scene.issuer.requests.length).toBe(before)
  })

  it('may be public with private key addresses: those are not contacted', async () => {
    await using issuer = await oidcIssuer()
    const inside = issuer.url.replace('localhost', '127.0.0.2')
    issuer.answer('/.well-known/openid-configuration', (_, response) =>
      response.end(JSON.stringify({ issuer: issuer.url, jwks_uri: `${inside}/jwks` })),
    )
    const keys = createIssuerKeys(outbound(['127.0.0.1', '::1']))
    await expect(keys.of(issuer.url)).rejects.toMatchObject({ reason: 'issuer_unreachable' })
    expect(issuer.requests).toEqual(['/.well-known/openid-configuration'])
  })
})

describe('the key of a run', () => {
  it('cannot be prolonged by rotation', async () => {
    const { body } = await scene.exchange(await scene.token())
    const [key] = (await scene.user.client.apiKeys.list()).api_keys.filter(({ hint }) =>
      body.api_key.startsWith(hint ?? '-'),
    )
    const rotated = scene.user.client.apiKeys.rotate({ params: { id: key?.id ?? '' }, body: {} })
    await expect(rotated).rejects.toMatchObject({ code: 'invalid_request' })
  })

  it('writes no trust, and reads no keys and no audit log, not even beside a session', async () => {
    const { body } = await scene.exchange(await scene.token())
    const client = scene.server.clientFor(body.api_key)
    const params = { project_id: scene.projectId }
    const rule = { repository: 'mallory/shop', repository_id: '1' }
    await expect(client.trust.create({ params, body: rule })).rejects.toMatchObject({ code: 'forbidden' })
    await expect(client.trust.list({ params })).rejects.toMatchObject({ code: 'forbidden' })
    await expect(client.apiKeys.list()).rejects.toMatchObject({ code: 'forbidden' })
    await expect(client.auditLog.list()).rejects.toMatchObject({ code: 'forbidden' })
    await expect(client.webhooks.list()).rejects.toMatchObject({ code: 'forbidden' })
    await expect(client.storage.list({ params })).rejects.toMatchObject({ code: 'forbidden' })
    await expect(client.projects.delete({ params })).rejects.toMatchObject({ code: 'forbidden' })
  })

  it('is worthless when the project is deleted during its creation', async () => {
    const project = await scene.trustingProject()
    const tokens = await Promise.all(Array.from({ length: 6 }, () => scene.token()))
    const [deleted, ...answers] = await Promise.all([
      scene.user.client.projects.delete({ params: { project_id: project } }),
      ...tokens.map((token) => scene.exchange(token, project)),
    ])
    expect(deleted).toBeUndefined()
    for (const { status, body } of answers) {
      if (status !== 201) expect(body.error.details.reason).toBe('issuer_not_trusted')
      else {
        const read = scene.server.clientFor(body.api_key).deployments.list({ params: { project_id: project } })
        await expect(read).rejects.toMatchObject({ code: expect.stringMatching(/^(not_found|forbidden)$/) })
      }
    }
    expect((await scene.exchange(await scene.token(), project)).body.error.details.reason).toBe('issuer_not_trusted')
  })

  it('of one account gives no access to another, and cannot remove its rules', async () => {
    const { id } = await scene.server.accounts.create({ name: 'Other', plan: 'free' })
    const others = scene.server.clientFor(await scene.server.key({ accountId: id }))
    const theirs = await others.projects.create({ body: { name: 'theirs' } })
    const { body } = await scene.exchange(await scene.token())
    const client = scene.server.clientFor(body.api_key)
    const params = { project_id: theirs.id }
    const created = client.deployments.create({ params, body: { name: 'a', git_url: 'https://example.com/a.git' } })
    await expect(created).rejects.toMatchObject({ code: 'forbidden' })
    await expect(others.trust.list({ params: { project_id: scene.projectId } })).rejects.toMatchObject({
      code: 'forbidden',
    })
    expect((await scene.exchange(await scene.token(), theirs.id)).body.error.details.reason).toBe('issuer_not_trusted')
  })
})
