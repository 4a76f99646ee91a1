import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type ServerWithCertificates, serverWithCertificates, uploadOf } from '../../harness/certificates.ts'
import { succeed, withKey } from '../../harness/conformance.ts'

let given: ServerWithCertificates
beforeAll(async () => {
  given = await serverWithCertificates()
})
afterAll(() => given?.[Symbol.asyncDispose]())

describe('GET /certificates', () => {
  it('lists the account’s certificates, newest first, page by page', async () => {
    const { server, caller } = given
    const ids = [
      await given.obtained('fairlead.example.net', { isOwn: true }),
      await given.obtained('a.apps.example.net'),
      (await server.client.certificates.create({ body: await uploadOf({ names: ['www.example.com'] }) })).id,
    ]
    const { certificates } = await succeed(caller, 'certificates.list', {})
    expect(certificates.map(({ id }) => id)).toEqual(ids.toReversed())
    expect(certificates.map(({ source }) => source)).toEqual(['uploaded', 'automatic', 'automatic'])
    const pages = []
    for await (const page of server.client.certificates.list.pages({ query: { limit: 2 } })) {
      pages.push(page.certificates.map(({ id }) => id))
    }
    expect(pages).toEqual([ids.slice(1).toReversed(), ids.slice(0, 1)])
  })

  it('hides other accounts’ and the server’s certificates from a tenant', async () => {
    const { server } = given
    const { id: accountId } = await server.accounts.create({ name: 'tenant', plan: 'free' })
    const tenant = withKey(server, await server.key({ accountId }))
    expect(await succeed(tenant, 'certificates.list', {})).toEqual({ certificates: [] })
  })

  it('lists only the certificates of its projects to a bound key', async () => {
    const { server, projectId } = given
    const { id: other } = await server.client.projects.create({ body: { name: 'other' } })
    const listed = async (id: string) => {
      const bound = withKey(server, await server.key({ projectIds: [id] }))
      return (await succeed(bound, 'certificates.list', {})).certificates.map(({ names }) => names)
    }
    expect(await listed(projectId)).toEqual([['a.apps.example.net']])
    expect(await listed(other)).toEqual([])
  })
})
