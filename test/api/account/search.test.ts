import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type TestServer, testServer } from '../../harness/server.ts'

let server: TestServer
beforeAll(async () => {
  server = await testServer()
})
afterAll(() => server[Symbol.asyncDispose]())

describe('GET /account/search', () => {
  it('finds projects and their resources by all words, and nothing of other accounts', async () => {
    const make = async (name: string) =>
      server.signIn({ accountId: (await server.accounts.create({ name, plan: 'pro' })).id })
    const [user, stranger] = [await make('one'), await make('two')]
    const [shop, blog] = [
      await user.client.projects.create({ body: { name: 'Web Shop' } }),
      await user.client.projects.create({ body: { name: 'Blog' } }),
    ]
    await stranger.client.projects.create({ body: { name: 'Shop of another' } })
    const database = (project_id: string, name: string) =>
      user.client.databases.create({ params: { project_id }, body: { name, plan: 'free' } })
    await database(shop.id, 'orders')
    await database(blog.id, 'shop-copy')
    const find = async (text: string) => {
      const { found, complete } = await user.client.account.search({ query: { text } })
      expect(complete).toBe(true)
      return found.map(({ kind, name, project_name }) => `${kind} ${name} of ${project_name}`)
    }
    expect(await find('SHOP')).toEqual([
      'project Web Shop of Web Shop',
      'database shop-copy of Blog',
      'database orders of Web Shop',
      'storage Storage of Web Shop',
    ])
    expect(await find('blog stor')).toEqual(['storage Storage of Blog'])
    expect(await find(' shop  order')).toEqual(['database orders of Web Shop'])
    expect(await find('%')).toEqual([])
    expect(await find('')).toHaveLength(6)
  })
})
