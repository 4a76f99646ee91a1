import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { apiCommand } from '../../../server/src/commands/client/api.ts'
import { createClient } from '../../../server/src/contract/client.ts'
import { openApiDocument } from '../../../server/src/http/reference/openapi.ts'
import { type TestServer, testServer } from '../../harness/server.ts'
import { declaration, handler, route } from './greeting.ts'

/* Adds an operation in the three files that `docs/extending.md` names, and nowhere else. */

type Module = Record<string, object>

vi.mock('../../../server/src/contract/routes.ts', async (original) => {
  const module = await original<Module>()
  return { ...module, routes: { ...module['routes'], ...(await import('./greeting.ts')).route } }
})
vi.mock('../../../server/src/contract/projects.ts', async (original) => {
  const module = await original<Module>()
  const { declaration } = await import('./greeting.ts')
  return { ...module, projectOperations: { ...module['projectOperations'], ...declaration } }
})
vi.mock('../../../server/src/features/projects/handlers.ts', async (original) => {
  const { projectHandlers } = await original<typeof import('../../../server/src/features/projects/handlers.ts')>()
  const { handler } = await import('./greeting.ts')
  return {
    projectHandlers: (...given: Parameters<typeof projectHandlers>) => ({ ...projectHandlers(...given), ...handler }),
  }
})

const name = 'projects.greet'
const { path, access } = route[name]

let server: TestServer
let project: string
beforeAll(async () => {
  server = await testServer()
  project = (await server.client.projects.create({ body: { name: 'Fairlead' } })).id
})
afterAll(() => server[Symbol.asyncDispose]())

const get = (query: string, apiKey: string) =>
  fetch(`${server.baseUrl}/projects/${project}/greeting${query}`, { headers: { authorization: `Bearer ${apiKey}` } })

it('answers over HTTP, with its query validated and its default applied', async () => {
  const plain = await get('', server.apiKey)
  expect([plain.status, await plain.json()]).toEqual([200, { greeting: 'Hello, Fairlead!' }])
  const german = await get('?language=de', server.apiKey)
  expect(await german.json()).toEqual({ greeting: 'Hallo, Fairlead!' })
  const unknown = await get('?language=xx', server.apiKey)
  expect(unknown.status).toBe(400)
  expect(await unknown.json()).toMatchObject({ error: { code: 'invalid_request', details: { field: 'language' } } })
})

it('needs its permission and a project of the account', async () => {
  const { id } = await server.accounts.create({ name: 'other', plan: 'free' })
  expect((await get('', await server.key({ accountId: id }))).status).toBe(404)
  expect((await get('', 'wrong')).status).toBe(401)
})

it('is a method of the client', async () => {
  const client = createClient({ baseUrl: server.baseUrl, apiKey: server.apiKey })
  const { greet } = client.projects as typeof client.projects & Greets
  expect(await greet({ params: { project_id: project }, query: { language: 'de' } })).toEqual({
    greeting: 'Hallo, Fairlead!',
  })
})

interface Greets {
  greet(input: { params: { project_id: string }; query?: { language: 'en' | 'de' } }): Promise<{ greeting: string }>
}

it('is in the OpenAPI document and among the commands', () => {
  const found = openApiDocument().paths[path.replace(':project_id', '{project_id}')]?.['get']
  expect(found).toMatchObject({ operationId: name, summary: declaration[name].summary })
  expect(apiCommand().commands.map((command) => command.name())).toContain(name)
  expect([access, Object.keys(handler)]).toEqual(['projects:read', [name]])
})
