import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { signedIn, succeed } from '../../harness/conformance.ts'
import { type SignedInBrowser, type TestServer, testServer } from '../../harness/server.ts'

let server: TestServer
let user: SignedInBrowser
let project_id: string
beforeAll(async () => {
  server = await testServer()
  user = await server.signIn()
  project_id = (await user.client.projects.create({ body: { name: 'p' } })).id
})
afterAll(() => server[Symbol.asyncDispose]())

const shop = { repository: 'acme/shop', repository_id: '700100200' }
const create = (body: object) => user.client.trust.create({ params: { project_id }, body: body as typeof shop })

describe('POST /projects/:project_id/trust', () => {
  it('makes a rule for a GitHub repository, and records it in the audit log', async () => {
    const made = await succeed(signedIn(server, user), 'trust.create', { project_id }, { ...shop, branch: 'main' })
    expect(made).toEqual({
      id: expect.stringMatching(/^trust_/),
      issuer: 'https://token.actions.githubusercontent.com',
      ...shop,
      branch: 'main',
      tag: null,
      environment: null,
      event: null,
      workflow: null,
      claims: {},
      created_at: expect.any(String),
      last_used_at: null,
    })
    expect((await user.client.auditLog.list({ query: { limit: 1 } })).entries[0]).toMatchObject({
      operation: 'trust.create',
      project_id,
      resource_id: made.id,
    })
  })

  it.each([
    ['GitLab', { issuer: 'https://gitlab.example.com', ...shop, tag: 'v*', event: 'push' }],
    [
      'a Buildkite name, whose id is optional in tokens',
      { issuer: 'https://agent.buildkite.com', repository: 'acme/shop' },
    ],
    ['a name at an older Forgejo', { issuer: 'https://git.example.com/api/actions', repository: 'acme/shop' }],
    ["a service account of Google's", { issuer: 'https://accounts.google.com', claims: { sub: '1234' } }],
    ['an issuer without repositories', { issuer: 'https://id.example.com/a', claims: { sub: 'robot-*', team: 'a' } }],
    ['named pull requests', { ...shop, event: 'pull_request' }],
  ])('accepts %s', async (_, body) => {
    expect(await create(body)).toMatchObject(body)
  })

  it.each([
    ['nothing', {}, 'repository'],
    ['a name without the id', { repository: 'acme/shop' }, 'repository_id'],
    ['an id without the name', { repository_id: '1' }, 'repository'],
    ['any repository', { ...shop, repository: 'acme/*' }, 'repository'],
    ['any id', { ...shop, repository_id: '*' }, 'repository_id'],
    ['an issuer over http', { ...shop, issuer: 'http://gitlab.example.com' }, 'issuer'],
    ['an issuer in another spelling', { ...shop, issuer: 'https://GitLab.example.com' }, 'issuer'],
    ['an issuer with a query', { ...shop, issuer: 'https://gitlab.example.com/?a=b' }, 'issuer'],
    ['an issuer with a password', { ...shop, issuer: 'https://a:b@gitlab.example.com' }, 'issuer'],
    ['any issuer', { ...shop, issuer: 'https://*.example.com' }, 'issuer'],
    ['branch and tag', { ...shop, branch: 'main', tag: 'v1' }, 'tag'],
    ['pull requests of forks', { ...shop, event: 'pull_request_target' }, 'event'],
    ['a control character', { ...shop, branch: 'a\nb' }, 'branch'],
    ['an empty branch', { ...shop, branch: '' }, 'branch'],
    ['claims that are not texts', { ...shop, claims: { a: 1 } }, 'claims.a'],
    ['a stranger without subject', { issuer: 'https://id.example.com', claims: { team: 'a' } }, 'claims.sub'],
    ['any subject', { issuer: 'https://id.example.com', claims: { sub: '*' } }, 'claims.sub'],
    [
      "a repository of Google's",
      { issuer: 'https://accounts.google.com', ...shop, claims: { sub: '1' } },
      'repository',
    ],
  ])('refuses %s', async (_, body, field) => {
    await expect(create(body)).rejects.toMatchObject({ code: 'invalid_request', details: { field } })
  })

  it('allows a project at most 100 rules', async () => {
    const other = (await user.client.projects.create({ body: { name: 'many' } })).id
    const add = () => user.client.trust.create({ params: { project_id: other }, body: shop })
    await server.database.query(
      `insert into trust_rules (id, project_id, account_id, issuer, claims)
       select 'trust_' || n, id, account_id, 'https://id.example.com', '{}' from projects, generate_series(1, 99) n
       where id = $1`,
      [other],
    )
    // Of several concurrent requests, one gets the last slot: all begin before the first is written.
    await server.database.query('begin')
    await server.database.query('lock table trust_rules in share row exclusive mode')
    const adding = Promise.allSettled(Array.from({ length: 4 }, add))
    const waiting = "select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    await expect.poll(async () => (await server.database.query(waiting)).length).toBeGreaterThan(1)
    await server.database.query('commit')
    const added = await adding
    expect(added.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
    await expect(add()).rejects.toMatchObject({ code: 'invalid_request' })
  })
})
