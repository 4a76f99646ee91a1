import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectNotFound, signedIn, succeed } from '../../harness/conformance.ts'
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

const add = async () =>
  (
    await user.client.trust.create({
      params: { project_id },
      body: { repository: 'acme/shop', repository_id: '1' },
    })
  ).id

describe('DELETE /projects/:project_id/trust/:id', () => {
  it('removes one rule', async () => {
    const [gone, kept] = [await add(), await add()]
    await succeed(signedIn(server, user), 'trust.delete', { project_id, id: gone })
    const { trust } = await user.client.trust.list({ params: { project_id } })
    expect(trust.map(({ id }) => id)).toEqual([kept])
  })

  it('answers 404 for other projects’ rules, and for random ids', async () => {
    await expectNotFound(server, 'trust.delete', { project_id, id: await add() }, signedIn(server, user))
  })
})
