import { createHmac } from 'node:crypto'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import { exportSPKI, importJWK, type JWK } from 'jose'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Claims, type IssuerKey, issuerKey, oidcIssuer, type SigningKey } from '../../harness/oidc-issuer.ts'
import { type TrustScene, trustScene } from './support.ts'

let scene: TrustScene
/** The issuer's second key, for ES256, and foreign keys. */
let elliptic: IssuerKey
let stranger: IssuerKey
beforeAll(async () => {
  scene = await trustScene()
  await scene.trust({ branch: 'main', environment: 'production', event: 'push', workflow: 'deploy.yml' })
  elliptic = await issuerKey('ES256')
  stranger = await issuerKey('RS256')
  scene.issuer.jwks.push(elliptic.publicJwk)
})
afterAll(() => scene[Symbol.asyncDispose]())

const now = () => Math.floor(Date.now() / 1000)
const production = { environment: 'production' }
/** A valid token, with changes. */
const token = (claims: Claims = {}, header?: Claims, key?: SigningKey) =>
  scene.token({ ...production, ...claims }, header, key)
const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
const withHeader = async (header: Claims) => `${part(header)}.${(await token()).split('.').slice(1).join('.')}`

/** Signs with the issuer's public key as a secret: a library that trusts `alg` of the header verifies it. */
async function signedWithPublicKey(): Promise<string> {
  const spki = await exportSPKI((await importJWK(scene.issuer.key.publicJwk, 'RS256')) as never)
  const text = `${part({ alg: 'HS256', typ: 'JWT', kid: scene.issuer.key.header['kid'] })}.${(await token()).split('.')[1]}`
  return `${text}.${createHmac('sha256', spki).update(text).digest('base64url')}`
}

it('exchanges the valid tokens behind the following ones', async () => {
  expect((await scene.exchange(await token())).status).toBe(201)
  expect((await scene.exchange(await token({}, {}, elliptic))).status).toBe(201)
})

const strangersKeyUnder = async (kid: unknown, more: Claims = {}) => token({}, { ...more, kid }, stranger)
const otherAddress = (address: string) => token({ iss: address })

/** Tokens by the reason of their refusal. */
const hostile: readonly (readonly [string, string, () => Promise<unknown>])[] = [
  // The form.
  ['an empty text', 'malformed', async () => ''],
  ['a text that is not a token', 'malformed', async () => 'not.a-token'],
  ['an encrypted token, of five parts', 'malformed', async () => 'a.b.c.d.e'],
  ['a header that is not JSON', 'malformed', async () => `bm9wZQ.${(await token()).split('.').slice(1).join('.')}`],
  ['claims that are a list', 'malformed', () => scene.issuer.sign('[1,2,3]')],
  ['claims that are not JSON', 'malformed', () => scene.issuer.sign('hello')],
  ['a token with a line break at its end', 'malformed', async () => `${await token()}\n`],
  // The algorithm.
  ['alg: none', 'algorithm', async () => token({}, { alg: 'none' })],
  ['alg: None, in another case', 'algorithm', async () => token({}, { alg: 'None' })],
  ['HS256 with the public key as the secret', 'algorithm', signedWithPublicKey],
  ['PS256', 'algorithm', async () => token({}, {}, await issuerKey('PS256'))],
  ['ES384', 'algorithm', async () => token({}, {}, await issuerKey('ES384'))],
  ['EdDSA', 'algorithm', async () => token({}, {}, await issuerKey('EdDSA'))],
  ['an algorithm that is a list', 'algorithm', async () => withHeader({ alg: ['RS256'], kid: 'a' })],
  ['no algorithm', 'algorithm', async () => withHeader({ kid: 'a' })],
  // The header.
  ['jku with the address of other keys', 'header', () => token({}, { jku: 'https://localhost:1/keys' }, stranger)],
  ['jwk with its own key', 'header', () => token({}, { jwk: stranger.publicJwk }, stranger)],
  ['x5u', 'header', () => token({}, { x5u: 'https://localhost:1/chain' }, stranger)],
  ['x5c', 'header', () => token({}, { x5c: ['MIIB'] }, stranger)],
  ['an extension that must be understood', 'header', async () => withHeader({ alg: 'RS256', kid: 'a', crit: ['exp'] })],
  ['no kid', 'header', () => strangersKeyUnder(undefined)],
  ['a kid that is a number', 'header', () => strangersKeyUnder(1)],
  ['a huge kid', 'header', () => strangersKeyUnder('k'.repeat(5_000))],
  ['another type of token', 'header', () => token({}, { typ: 'logout+jwt' })],
  // The key.
  ['a kid that the issuer lacks', 'unknown_key', () => token({}, {}, stranger)],
  ['a kid that is a path', 'unknown_key', () => strangersKeyUnder('../../../../dev/null')],
  ['a kid that is SQL', 'unknown_key', () => strangersKeyUnder("' or 1=1 --")],
  ['a kid that is a property of every object', 'unknown_key', () => strangersKeyUnder('__proto__')],
  ["the issuer's kid over another key", 'signature', () => strangersKeyUnder(scene.issuer.key.header['kid'])],
  [
    'the kid of the key for ES256 over RS256',
    'unknown_key',
    () => token({}, { kid: elliptic.header['kid'] }, scene.issuer.key),
  ],
  [
    'a signature of another token',
    'signature',
    async () => `${(await token()).split('.').slice(0, 2).join('.')}.${(await token()).split('.')[2]}`,
  ],
  [
    'changed claims',
    'signature',
    async () => {
      const [header, claims = '', signature] = (await token()).split('.')
      return `${header}.${part({ ...JSON.parse(atob(claims)), actor: 'mallory' })}.${signature}`
    },
  ],
  ['no signature', 'signature', async () => `${(await token()).split('.').slice(0, 2).join('.')}.`],
  // The issuer.
  ['an issuer that differs by a slash', 'issuer_not_trusted', () => otherAddress(`${scene.issuer.url}/`)],
  ['an issuer that differs by case', 'issuer_not_trusted', () => otherAddress(scene.issuer.url.toUpperCase())],
  ['an issuer over http', 'issuer_not_trusted', () => otherAddress(scene.issuer.url.replace('https', 'http'))],
  ['an issuer with a path', 'issuer_not_trusted', () => otherAddress(`${scene.issuer.url}/evil`)],
  [
    'an issuer whose host begins with the trusted one',
    'issuer_not_trusted',
    () => otherAddress(`${scene.issuer.url}.evil.example`),
  ],
  [
    "GitHub's issuer, which the project does not trust",
    'issuer_not_trusted',
    () => otherAddress('https://token.actions.githubusercontent.com'),
  ],
  ['no issuer', 'claim', () => token({ iss: undefined })],
  ['two issuers', 'claim', () => token({ iss: [scene.issuer.url] })],
  ['an issuer with a NUL character', 'claim', () => otherAddress(`${scene.issuer.url}\0`)],
  // The audience.
  ['another server as its audience', 'audience', () => token({ aud: 'https://fairlead.example.com' })],
  ["GitHub's own default audience", 'audience', () => token({ aud: 'https://github.com/acme' })],
  ['an audience with a slash', 'audience', () => token({ aud: `${scene.server.url}/` })],
  ['an audience over https', 'audience', () => token({ aud: scene.server.url.replace('http', 'https') })],
  ['several audiences', 'audience', () => token({ aud: [scene.server.url, 'https://evil.example'] })],
  ['an empty list of audiences', 'audience', () => token({ aud: [] })],
  ['no audience', 'claim', () => token({ aud: undefined })],
  ['an audience that is a number', 'audience', () => token({ aud: 1 })],
  // The times.
  ['a token that has expired', 'expired', () => token({ exp: now() - 61 })],
  ['a token that was issued the day before yesterday', 'expired', () => token({ iat: now() - 2 * 86_400 })],
  ['a token that is not valid yet', 'not_yet_valid', () => token({ nbf: now() + 120 })],
  ['a token that was issued in the future', 'not_yet_valid', () => token({ iat: now() + 120, nbf: now() })],
  ['a token with a lifetime of a year', 'lifetime', () => token({ exp: now() + 365 * 86_400 })],
  ['a token without an end', 'claim', () => token({ exp: undefined })],
  ['an end that is a text', 'claim', () => token({ exp: String(now() + 300) })],
  ['an end that is a list', 'claim', () => token({ exp: [now() + 300] })],
  ['no time of issue', 'claim', () => token({ iat: undefined })],
  ['a start that is a text', 'claim', () => token({ nbf: '0' })],
  ['no subject', 'claim', () => token({ sub: undefined })],
  ['a jti that is a number', 'claim', () => token({ jti: 7 })],
  // The run.
  ['another repository', 'repository', () => token({ repository: 'mallory/shop', repository_id: '666' })],
  ['a new repository with the same name', 'repository_id', () => token({ repository_id: '700100201' })],
  ['a renamed repository', 'repository', () => token({ repository: 'acme/store' })],
  ['a fork', 'repository', () => token({ repository: 'mallory/shop', repository_id: '700100999' })],
  ['a name in another case', 'repository', () => token({ repository: 'Acme/Shop' })],
  ['no repository', 'repository', () => token({ repository: undefined })],
  ['no id', 'repository_id', () => token({ repository_id: undefined })],
  ['a repository that is a list', 'claim', () => token({ repository: ['acme/shop'] })],
  ['an id that is a number', 'claim', () => token({ repository_id: 700100200 })],
  ['an id that is an object', 'claim', () => token({ repository_id: { toString: '700100200' } })],
  ['another branch', 'branch', () => token({ ref: 'refs/heads/main2' })],
  ['a tag with the name of the branch', 'branch', () => token({ ref: 'refs/tags/main', ref_type: 'tag' })],
  ['a branch whose name looks like a full reference', 'branch', () => token({ ref: 'refs/heads/refs/heads/main' })],
  ['no environment', 'environment', () => token({ environment: undefined })],
  ['an empty environment', 'environment', () => token({ environment: '' })],
  ['another environment', 'environment', () => token({ environment: 'Production' })],
  ['an environment that is a list', 'claim', () => token({ environment: ['production'] })],
  ['another event', 'event', () => token({ event_name: 'workflow_dispatch' })],
  [
    'a pull request',
    'event',
    () => token({ event_name: 'pull_request', ref: 'refs/pull/7/merge', head_ref: 'main', base_ref: 'main' }),
  ],
  [
    'a pull request of a fork into main',
    'event',
    () => token({ event_name: 'pull_request_target', ref: 'refs/heads/main', head_ref: 'main', base_ref: 'main' }),
  ],
  [
    'another workflow',
    'workflow',
    () => token({ workflow_ref: 'acme/shop/.github/workflows/evil.yml@refs/heads/main' }),
  ],
  [
    'a workflow of the same file name in another repository',
    'workflow',
    () => token({ workflow_ref: 'mallory/shop/.github/workflows/deploy.yml@refs/heads/main' }),
  ],
]

const forbidden = /^(issuer_not_trusted|repository|repository_id|branch|environment|event|workflow)$/

describe('POST /oidc/token', () => {
  it.each(hostile)('refuses %s (%s)', async (_, reason, make) => {
    const { status, body } = await scene.exchange(await make())
    expect(body.error.details).toEqual({ reason })
    expect(status).toBe(forbidden.test(reason) ? 403 : 401)
  })

  it.each([
    ['a huge token', { token: 'a'.repeat(20_000) }, 'token'],
    ['a token that is a number', { token: 1 }, 'token'],
    ['a token that is a list', { token: ['a.b.c'] }, 'token'],
    ['no token', {}, 'token'],
    ['no project', { token: 'a.b.c', project_id: null }, 'project_id'],
  ])(
    'refuses %s with 400',
    async (_, { token: given, project_id }: { token?: unknown; project_id?: unknown }, field) => {
      const { status, body } = await scene.exchange(given, project_id)
      expect({ status, field: (body.error.details as { field?: string }).field }).toEqual({ status: 400, field })
    },
  )

  it('refuses a token that was exchanged before, even with another signature of the same text', async () => {
    const once = await token()
    expect((await scene.exchange(once)).status).toBe(201)
    expect((await scene.exchange(once)).body.error.details.reason).toBe('reused')
    const sameId = await token({ jti: JSON.parse(atob(once.split('.')[1] ?? '')).jti, run_id: '1' })
    expect((await scene.exchange(sameId)).body.error.details.reason).toBe('reused')
    // ES256 signatures differ each time.
    const at = now()
    const claims = { jti: undefined, run_id: '5', iat: at, nbf: at, exp: at + 300 }
    const [one, other] = [await token(claims, {}, elliptic), await token(claims, {}, elliptic)]
    expect(one).not.toBe(other)
    expect((await scene.exchange(one)).status).toBe(201)
    expect((await scene.exchange(other)).body.error.details.reason).toBe('reused')
  })

  it('gives a key to one of many concurrent requests with the same token', async () => {
    const one = await token()
    const answers = await Promise.all(Array.from({ length: 8 }, () => scene.exchange(one)))
    expect(answers.map(({ status }) => status).sort()).toEqual([201, ...Array<number>(7).fill(401)])
  })

  it('tolerates clocks that differ by less than a minute', async () => {
    expect((await scene.exchange(await token({ exp: now() - 30 }))).status).toBe(201)
    expect((await scene.exchange(await token({ iat: now() + 30, nbf: now() + 30 }))).status).toBe(201)
  })

  it('answers alike for a missing project and for a project that does not trust the issuer', async () => {
    const other = await scene.user.client.projects.create({ body: { name: 'other' } })
    const answers = []
    for (const id of [other.id, 'proj_01h455vb4pex5vsknk084sn02q', 'nonsense']) {
      answers.push(await scene.exchange(await token(), id))
    }
    expect(new Set(answers.map((answer) => JSON.stringify(answer))).size).toBe(1)
    expect(answers[0]).toMatchObject({ status: 403, body: { error: { details: { reason: 'issuer_not_trusted' } } } })
  })

  it('keeps claims of any content in the audit log', async () => {
    const ref = `refs/heads/\0\ud800${'x'.repeat(2_000)}`
    const claims = Object.fromEntries(Array.from({ length: 100 }, (_, at) => [`c${at}`, { deep: [at] }]))
    expect((await scene.exchange(await token({ ref, ...claims }))).body.error.details.reason).toBe('branch')
    const [entry] = (await scene.user.client.auditLog.list({ query: { limit: 1 } })).entries
    expect(entry).toMatchObject({ operation: 'oidc.exchange_failed', details: { reason: 'branch' } })
    expect(JSON.stringify(entry).length).toBeLessThan(20_000)
  })
})

/** Trusts an issuer that answers as given, and returns why its tokens are refused. */
async function refusalOf(
  prepare: (issuer: Awaited<ReturnType<typeof oidcIssuer>>) => void | Promise<void>,
): Promise<string | undefined> {
  await using issuer = await oidcIssuer()
  await prepare(issuer)
  const project = await scene.trustingProject({ issuer: issuer.url })
  const signed = await issuer.workflowToken(scene.server.url)
  return (await scene.exchange(signed, project)).body.error?.details.reason
}

const configuration = '/.well-known/openid-configuration'
type Answer = Parameters<Awaited<ReturnType<typeof oidcIssuer>>['answer']>[1]
const json =
  (body: unknown, status = 200): Answer =>
  (_, response) =>
    void response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))

describe('an issuer', () => {
  it.each([
    [
      'that redirects',
      'issuer_redirects',
      configuration,
      (_: unknown, r) => void r.writeHead(302, { location: 'https://localhost:1/' }).end(),
    ],
    [
      'whose keys redirect',
      'issuer_redirects',
      '/jwks',
      (_: unknown, r) => void r.writeHead(307, { location: '/jwks2' }).end(),
    ],
    ['that answers with an error', 'issuer_answer', configuration, json({}, 500)],
    ['that answers with a page', 'issuer_answer', configuration, (_: unknown, r) => void r.end('<html>')],
    [
      'that claims to be another issuer',
      'issuer_answer',
      configuration,
      json({ issuer: 'https://other.example', jwks_uri: 'https://other.example/jwks' }),
    ],
    ['whose list of keys is invalid', 'issuer_answer', '/jwks', json({ keys: 'all' })],
    ['whose answer is too large', 'issuer_answer', '/jwks', json({ keys: [], more: 'x'.repeat(300_000) })],
    ['with 10,000 keys', 'too_many_keys', '/jwks', json({ keys: Array.from({ length: 10_000 }, () => ({})) })],
    ['that hangs up', 'issuer_unreachable', configuration, (request: { destroy(): void }) => void request.destroy()],
    ['that does not answer in time', 'issuer_slow', configuration, () => undefined],
    [
      'that sends an endless response',
      'issuer_slow',
      '/jwks',
      (_: unknown, r) => void r.writeHead(200).write('{"keys":['),
    ],
    ['with a secret key for all', 'unknown_key', '/jwks', json({ keys: [{ kty: 'oct', k: 'c2VjcmV0', kid: 'a' }] })],
  ] as [string, string, string, Answer][])('%s is not trusted (%s)', async (_, reason, path, answer) => {
    expect(await refusalOf((issuer) => issuer.answer(path, answer))).toBe(reason)
  })

  it('that names its keys at an address without TLS is not trusted', async () => {
    const reason = await refusalOf((issuer) =>
      issuer.answer(configuration, json({ issuer: issuer.url, jwks_uri: issuer.url.replace('https', 'http') })),
    )
    expect(reason).toBe('issuer_answer')
  })

  it('with two keys of one kid is not trusted', async () => {
    const reason = await refusalOf(async (issuer) => {
      issuer.jwks.push({ ...(await issuerKey('RS256')).publicJwk, kid: issuer.key.publicJwk.kid } as JWK)
    })
    expect(reason).toBe('ambiguous_key')
  })

  it('with an unreadable key is not trusted', async () => {
    const reason = await refusalOf((issuer) => {
      issuer.jwks[0] = { ...issuer.key.publicJwk, n: 'AQAB' }
    })
    expect(reason).toBe('unusable_key')
  })

  it('with an untrusted certificate is not trusted', async () => {
    const trusted = getCACertificates('default')
    const reason = await refusalOf(() => setDefaultCACertificates(getCACertificates('bundled')))
    setDefaultCACertificates(trusted)
    expect(reason).toBe('issuer_unreachable')
  })

  it('may change its keys: the server looks up an unknown key once, and ignores made-up keys', async () => {
    await using issuer = await oidcIssuer()
    const project = await scene.trustingProject({ issuer: issuer.url })
    const sign = async (key: IssuerKey) =>
      issuer.sign(JSON.parse(atob((await issuer.workflowToken(scene.server.url)).split('.')[1] ?? '')), {}, key)
    expect((await scene.exchange(await sign(issuer.key), project)).status).toBe(201)
    const next = await issuerKey('RS256')
    issuer.jwks[0] = next.publicJwk
    expect((await scene.exchange(await sign(next), project)).status).toBe(201)
    const asked = issuer.requests.length
    for (let i = 0; i < 5; i++) {
      const { body } = await scene.exchange(await sign(await issuerKey('ES256')), project)
      expect(body.error.details.reason).toBe('unknown_key')
    }
    expect(issuer.requests.length).toBe(asked)
    expect((await scene.exchange(await sign(next), project)).status).toBe(201)
  })
})
