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
    for (const [index, status] of states.entries()) {
      const made = { name: 'shop', git_url: 'https://127.0.0.1:1/a.git' }
      const { id } = await deployAndSettle(server.client, project_id, made)
      await server.database.query(
        "update deployments set status = $1, created_at = date_bin('1 h', now(), 'epoch') + $2::interval + interval '16 min' where id = $3",
        [status, times[index], id],
      )
    }
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
