import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectNotFound, signedIn, succeed } from '../../harness/conformance.ts'
import { type SignedInBrowser, type TestServer, testServer } from '../../harness/server.ts'

let server: TestServer
let user: SignedInBrowser
beforeAll(async () => {
  server = await testServer()
  user = await server.signIn()
})
afterAll(() => server[Symbol.asyncDispose]())

describe('GET /projects/:project_id/trust', () => {
  it('lists the rules of one project, newest first, page by page', async () => {
    const { id: project_id } = await user.client.projects.create({ body: { name: 'p' } })
    const { id: other } = await user.client.projects.create({ body: { name: 'other' } })
    const rule = { repository: 'acme/shop', repository_id: '1' }
    const ids: string[] = []
    for (const branch of ['a', 'b', 'c']) {
      ids.unshift((await user.client.trust.create({ params: { project_id }, body: { ...rule, branch } })).id)
    }
    await user.client.trust.create({ params: { project_id: other }, body: rule })
    const listed = await succeed(signedIn(server, user), 'trust.list', { project_id })
    expect(listed.trust.map(({ id }) => id)).toEqual(ids)
    const pages = []
    for await (const page of user.client.trust.list.pages({ params: { project_id }, query: { limit: 2 } })) {
      pages.push(page.trust.map(({ branch }) => branch))
    }
    expect(pages).toEqual([['c', 'b'], ['a']])
  })

  it('answers 404 for projects of other accounts', async () => {
    const { id: project_id } = await user.client.projects.create({ body: { name: 'p' } })
    await expectNotFound(server, 'trust.list', { project_id }, signedIn(server, user))
  })
})
