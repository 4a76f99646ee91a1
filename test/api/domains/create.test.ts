import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ask, expectNotFound, succeed, withKey } from '../../harness/conformance.ts'
import { type ServerWithApps, serverWithApps } from '../../harness/domains.ts'
import { serverWithProject } from '../../harness/project.ts'

let given: ServerWithApps
beforeAll(async () => {
  given = await serverWithApps()
})
afterAll(() => given?.[Symbol.asyncDispose]())

const refused = async (body: object, app: 0 | 1 = 0) => {
  const answer = await ask(given.caller, 'domains.create', given.app(app), body)
  const { message, details } = JSON.parse(answer.text).error
  return [answer.status, details.field, message]
}

describe('POST /projects/:project_id/apps/:app_id/domains', () => {
  it('adds a domain that is not verified yet, with the records to set', async () => {
    const made = await succeed(given.caller, 'domains.create', given.app(), { name: 'Bücher.Example.com' })
    expect(made).toMatchObject({
      id: expect.stringMatching(/^dom_/),
      app_id: given.app().app_id,
      name: 'xn--bcher-kva.example.com',
      unicode_name: 'bücher.example.com',
      status: 'pending',
      primary: false,
      redirect: false,
      certificate: null,
      url: 'https://xn--bcher-kva.example.com',
    })
    expect(made.records).toContainEqual({
      type: 'CNAME',
      name: 'xn--bcher-kva.example.com',
      value: `${given.app().app_id}.apps.example.net`,
      purpose: 'traffic',
    })
  })

  it('refuses an invalid name, a name of the server, and a name that the account already has', async () => {
    for (const name of ['', 'a b', '10.0.0.1', 'localhost', 'co.uk', '*.co.uk', `${'a'.repeat(64)}.example.com`]) {
      expect([name, ...(await refused({ name }))].slice(0, 3)).toEqual([name, 400, 'name'])
    }
    expect((await refused({ name: 'shop.apps.example.net' })).slice(0, 2)).toEqual([400, 'name'])
    await given.add('twice.example.com')
    expect(await refused({ name: 'twice.example.com' })).toEqual([400, 'name', 'name: is a domain of this app already'])
    expect(await refused({ name: 'TWICE.example.com' }, 1)).toEqual([
      400,
      'name',
      'name: is a domain of another app of this account: remove it there first',
    ])
    expect((await refused({ name: '*.example.com', redirect: true })).slice(0, 2)).toEqual([400, 'redirect'])
    expect((await refused({ redirect: true })).slice(0, 2)).toEqual([400, 'name'])
  })

  it('writes the name into the audit log', async () => {
    const { id } = await given.add('audited.example.com')
    const details = await given.server.database.query<{ details: object }>(
      'select details from audit_entries where resource_id = $1',
      [id],
    )
    expect(details).toEqual([{ details: { app_id: given.app().app_id, name: 'audited.example.com' } }])
  })

  it('refuses domains beyond the limit of the app’s plan, or of the account', async () => {
    const { server } = given
    const { id: accountId } = await server.accounts.create({ name: 'Small shop', plan: 'free' })
    const client = server.clientFor(await server.key({ accountId }))
    const { id: project_id } = await client.projects.create({ body: { name: 'p' } })
    const app = async (name: string) => {
      const values = [`app_${name.padEnd(26, '0')}`, project_id, name, `${name}.apps.example.net`]
      await server.database.query('insert into apps (id, project_id, name, hostname) values ($1, $2, $3, $4)', values)
      return { project_id, app_id: values[0] ?? '' }
    }
    const add = async (params: { project_id: string; app_id: string }, name: string) =>
      client.domains.create({ params, body: { name } })
    const apps: { project_id: string; app_id: string }[] = []
    for (const name of ['0a', '0b', '0c', '0d', '0e', '0f']) apps.push(await app(name))
    const [first] = apps
    for (const n of [1, 2, 3, 4, 5]) await add(first as never, `d${n}.example.org`)
    await expect(add(first as never, 'd6.example.org')).rejects.toMatchObject({ details: { most_domains: 5 } })
    for (const [index, params] of apps.slice(1, 5).entries()) {
      for (const n of [1, 2, 3, 4, 5]) await add(params, `d${n}.e${index}.example.org`)
    }
    await expect(add(apps[5] as never, 'last.example.org')).rejects.toMatchObject({
      details: { limit: 'domains', most: 25 },
    })
  })

  it('is refused where apps have ports, with the missing setting', async () => {
    await using ports = await serverWithProject()
    await ports.deploy('a')
    const params = { project_id: ports.projectId, app_id: (await ports.appNamed('a')).id }
    const caller = withKey(ports.server, ports.server.apiKey)
    const answer = await ask(caller, 'domains.create', params, { name: 'shop.example.com' })
    expect([answer.status, answer.text]).toEqual([400, expect.stringContaining('FAIRLEAD_DOMAIN')])
    const { refusal } = await succeed(caller, 'domains.list', params)
    expect(refusal).toContain('FAIRLEAD_DOMAIN')
  })

  it('answers the same 404 as for an app that never existed', async () => {
    await expectNotFound(given.server, 'domains.create', given.app())
  })
})
