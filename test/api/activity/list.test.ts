import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectNotFound, succeed, withKey } from '../../harness/conformance.ts'
import { deployAndSettle } from '../../harness/deployments.ts'
import { ownServer, type TestServer } from '../../harness/server.ts'

let server: TestServer
let project_id: string
const ids: string[] = []
beforeAll(async () => {
  server = await ownServer({ FAIRLEAD_OUTBOUND: 'any' })
  project_id = (await server.client.projects.create({ body: { name: 'p' } })).id
  for (const name of ['shop', 'mailer', 'shop']) {
    const made = { name, git_url: 'https://127.0.0.1:1/a.git', branch: 'main' }
    ids.unshift((await deployAndSettle(server.client, project_id, made)).id)
  }
})
afterAll(() => server[Symbol.asyncDispose]())

describe('GET /projects/:project_id/activity', () => {
  it('answers with the releases of all apps, newest first, each with its app', async () => {
    const { releases } = await succeed(withKey(server, server.apiKey), 'activity.list', { project_id })
    expect(releases.map(({ id }) => id)).toEqual(ids)
    expect(releases.map(({ app }) => app.name)).toEqual(['shop', 'mailer', 'shop'])
    expect(releases[0]?.app).toEqual(releases[2]?.app)
    expect(releases[0]).toMatchObject({ status: 'failed', branch: 'main', commit: null, kept: false })
  })

  it('comes in pages', async () => {
    const found: string[] = []
    for await (const page of server.client.activity.list.pages({ params: { project_id }, query: { limit: 2 } })) {
      expect(page.releases.length).toBeLessThanOrEqual(2)
      found.push(...page.releases.map(({ id }) => id))
    }
    expect(found).toEqual(ids)
  })

  it('answers 404 for projects that do not exist or belong to others', () =>
    expectNotFound(server, 'activity.list', { project_id }))
})
