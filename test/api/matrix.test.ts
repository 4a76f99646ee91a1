import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Operation, operations } from '../../server/src/contract/operations.ts'
import { type Scope, scopes } from '../../server/src/contract/routes.ts'
import { generateKey } from '../../server/src/features/accounts/keys.ts'
import { newId } from '../../server/src/platform/ids.ts'
import { groupOf, paramKinds, pathOf, requestOf } from '../harness/requests.ts'
import { ownServer, type TestServer } from '../harness/server.ts'

let server: TestServer
let keys: Record<'revoked' | 'expired' | 'bound' | 'foreign', string>
/** Resources of the operator's account, by the name of a path parameter and, for `:id`, by the group of the operation. */
const existing = new Map<string, string>()

beforeAll(async () => {
  // Each request comes from a different address, so that limits by address do not apply.
  server = await ownServer({
    FAIRLEAD_TRUSTED_PROXIES: '127.0.0.1',
    FAIRLEAD_OUTBOUND: 'any',
    FAIRLEAD_FETCH_TIMEOUT: '1',
  })
  const { id } = await server.client.projects.create({ body: { name: 'matrix' } })
  const other = await server.client.projects.create({ body: { name: 'other' } })
  existing.set('project_id', id)
  for (const operation of operations) {
    if (operation.body === undefined || !operation.name.endsWith('.create') || operation.access === 'user') continue
    const { status, body } = await ask(operation, server.apiKey)
    if (status === 201) existing.set(groupOf(operation), (body as { id: string }).id)
  }
  existing.set('projects', id)
  const account = await server.accounts.create({ name: 'foreign', plan: 'pro' })
  keys = {
    revoked: await server.key({}),
    expired: await server.key({}),
    bound: await server.key({ projectIds: [other.id] }),
    foreign: await server.key({ accountId: account.id }),
  }
  const ids = (await server.keys.list()).map((key) => key.id)
  const [revoked = '', expired = ''] = ids.slice(-4)
  await server.keys.revoke(revoked)
  await server.database.query("update api_keys set expires_at = now() - interval '1 s' where id = $1", [expired])
})
afterAll(() => server[Symbol.asyncDispose]())

let requests = 0

interface Answer {
  readonly status: number
  readonly body: unknown
}

async function ask(operation: Operation, authorization: string | undefined, missing = false): Promise<Answer> {
  const kinds = Object.entries(paramKinds(operation))
  const params = kinds.map(([name, kind]) => {
    const found = existing.get(name === 'id' ? groupOf(operation) : name)
    return [name, missing || found === undefined ? newId(kind) : found] as const
  })
  const { method, body, headers } = requestOf(operation)
  requests++
  const bearer = authorization?.startsWith('fl_') ? `Bearer ${authorization}` : authorization
  const response = await fetch(server.baseUrl + pathOf(operation, Object.fromEntries(params)), {
    method,
    headers: {
      ...headers,
      'x-forwarded-for': `203.0.${Math.floor(requests / 250)}.${requests % 250}`,
      ...(bearer === undefined ? {} : { authorization: bearer }),
    },
    ...(body === undefined ? {} : { body }),
  })
  const text = await response.text()
  const json = response.headers.get('content-type')?.startsWith('application/json')
  return { status: response.status, body: json ? JSON.parse(text) : text }
}

const error = (status: number, code: string, message: unknown, details: unknown = {}) => ({
  status,
  body: { error: { code, message, details } },
})
const unauthorized = error(
  401,
  'unauthorized',
  'The API key is missing or not valid. Send it as Authorization: Bearer <key>.',
)
const notFound = error(404, 'not_found', 'There is no such resource, or you may not see it.')

async function keyWith(given: readonly Scope[]): Promise<string> {
  const accountId = server.accountId
  return (await server.keys.create({ accountId, name: 'scoped', scopes: given, projectIds: null })).key
}

describe.each(operations.map((operation) => [operation.name, operation] as const))('%s', (_, operation) => {
  const { access } = operation
  const inProject = operation.path.includes(':project_id')

  it.each([
    ['no key', () => undefined],
    ['another scheme', () => 'Basic dXNlcjpwYXNz'],
    ['an empty key', () => 'Bearer '],
    ['a key of the wrong form', () => 'Bearer secret'],
    ['a key with a wrong checksum', () => `fl_${'a'.repeat(36)}`],
    ['a key that was never made', () => generateKey()],
    ['a revoked key', () => keys.revoked],
    ['an expired key', () => keys.expired],
  ])('answers 401 to %s', async (_case, key) => {
    expect(await ask(operation, key())).toEqual(unauthorized)
  })

  if (access === 'user') {
    it('answers 403 to every key', async () => {
      const expected = error(403, 'forbidden', 'API keys cannot do this; sign in to the dashboard.')
      expect(await ask(operation, server.apiKey)).toEqual(expected)
      expect(await ask(operation, keys.foreign)).toEqual(expected)
    })
    return
  }

  if (access !== 'any') {
    it('answers 403 to a key with every scope except the required scope, whether the resource exists or not', async () => {
      const write = access.replace(/:read$/, ':write')
      const key = await keyWith(scopes.filter((scope) => scope !== access && scope !== write))
      const expected = error(403, 'forbidden', `This API key lacks the permission ${access}.`, { scope: access })
      expect(await ask(operation, key)).toEqual(expected)
      expect(await ask(operation, key, true)).toEqual(expected)
    })
  }

  it(`answers ${inProject ? 403 : 'with nothing of others'} to a key that is bound to another project`, async () => {
    const answer = await ask(operation, keys.bound)
    if (inProject) {
      expect(answer).toEqual(error(403, 'forbidden', 'This API key is bound to other projects.'))
    } else if (operation.path.includes(':')) {
      expect(answer).toEqual(notFound)
    } else if (operation.method === 'GET' && operation.wholeAccount !== true) {
      expect(answer.status).toBe(200)
      for (const id of existing.values()) expect(JSON.stringify(answer.body)).not.toContain(id)
    } else {
      expect(answer).toEqual(error(403, 'forbidden', expect.stringContaining('bound to its projects')))
    }
  })

  it("answers another account's key as if no resource of this account existed", async () => {
    const answer = await ask(operation, keys.foreign)
    if (operation.path.includes(':')) {
      expect(answer).toEqual(notFound)
      expect(await ask(operation, keys.foreign, true)).toEqual(answer)
    } else {
      expect(answer.status).toBeLessThan(500)
      for (const id of existing.values()) expect(JSON.stringify(answer.body)).not.toContain(id)
    }
  })

  if (operation.path.includes(':')) {
    it('answers 404 to its own key for resources that never existed', async () => {
      expect(await ask(operation, server.apiKey, true)).toEqual(notFound)
    })
  }

  if (operation.method === 'GET') {
    it('needs exactly the declared scope', async () => {
      const key = await keyWith(access === 'any' ? [] : [access])
      expect((await ask(operation, key)).status).not.toBe(403)
    })
  }
})
