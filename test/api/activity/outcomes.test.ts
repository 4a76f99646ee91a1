import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectNotFound, succeed, withKey } from '../../harness/conformance.ts'
import { deployAndSettle } from '../../harness/deployments.ts'
import { ownServer, type TestServer } from '../../harness/server.ts'

let server: TestServer
let project_id: string
beforeAll(async () => {
  server = await ownServer({ FAIRLEAD_OUTBOUND: 'any' })
  project_id = (await server.client.projects.create({ body: { name: 'p' } })).id
})
afterAll(() => server[Symbol.asyncDispose]())

const read = async () => (await succeed(withKey(server, server.apiKey), 'activity.outcomes', { project_id })).outcomes

describe('GET /projects/:project_id/activity/outcomes', () => {
  it('counts the outcomes by quarters of an hour, of the last 15 days only', async () => {
    expect(await read()).toEqual([])
    const states = ['running', 'stopped', 'failed', 'canceled', 'superseded', 'failed', 'failed']
    const times = ['-1 h', '-1 h', '-1 h', '-1 h', '-3 d', '-3 d', '-16 d']
    const ids: string[] = []
    for (const _ of states) {
      const made = { name: 'shop', git_url: 'https://127.0.0.1:1/a.git' }
      ids.push((await deployAndSettle(server.client, project_id, made)).id)
    }
    // In one statement, so that all count from the same hour.
    await server.database.query(
      `update deployments
       set status = given.status, created_at = date_bin('1 h', now(), 'epoch') + ago::interval + interval '16 min'
       from unnest($1::text[], $2::text[], $3::text[]) as given (id, status, ago) where deployments.id = given.id`,
      [ids, states, times],
    )
    const hour = Math.floor(Date.now() / 3_600_000) * 3_600_000
    const at = (hours: number) =>
      expect.toSatisfy((text: string) => {
        const begin = Date.parse(text)
        // The hour may have changed since the test inserted the rows.
        return [hour, hour - 3_600_000].includes(begin - 15 * 60_000 + hours * 3_600_000)
      })
    expect(await read()).toEqual([
      { at: at(72), succeeded: 1, failed: 1, other: 0 },
      { at: at(1), succeeded: 2, failed: 1, other: 1 },
    ])
  })

  it('answers 404 for projects that do not exist or belong to others', () =>
    expectNotFound(server, 'activity.outcomes', { project_id }))
})
