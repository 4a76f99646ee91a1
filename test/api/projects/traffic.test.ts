import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { deployAndSettle } from '../../harness/deployments.ts'
import { repository } from '../../harness/repository.ts'
import { type OwnServer, ownServer } from '../../harness/server.ts'

let server: OwnServer
beforeAll(async () => {
  server = await ownServer()
})
afterAll(() => server[Symbol.asyncDispose]())

const trafficOf = async (id: string) => (await server.client.projects.traffic({ params: { project_id: id } })).traffic

const totalOf = async (id: string) =>
  (await trafficOf(id)).reduce(
    (sum, { requests, errors }) => ({ requests: sum.requests + requests, errors: sum.errors + errors }),
    { requests: 0, errors: 0 },
  )

/**
 * An app that returns at /count the number of requests from the gateway, including the server's request at the switch.
 */
const countingApp = {
  'package.json': JSON.stringify({ scripts: { start: 'node server.js' } }),
  'server.js': `let count = 0
require('node:http').createServer((request, response) => {
  if (request.headers['x-forwarded-for']) count += 1
  if (request.url === '/broken') return request.socket.destroy()
  response.statusCode = request.url === '/error' ? 500 : request.url === '/missing' ? 404 : 200
  response.end(String(count))
}).listen(process.env.PORT)
`,
}

describe('GET /projects/:project_id/traffic', () => {
  it('answers with 24 whole hours, the current one last, including hours without requests', async () => {
    const { id } = await server.client.projects.create({ body: { name: 'quiet' } })
    const before = Date.now()
    const traffic = await trafficOf(id)
    const after = Date.now()
    expect(traffic).toHaveLength(24)
    const hours = traffic.map(({ hour }) => Date.parse(hour))
    const last = hours.at(-1) ?? 0
    expect(last).toBeGreaterThan(before - 3_600_000)
    expect(last).toBeLessThanOrEqual(after)
    for (const [at, { hour, requests, errors }] of traffic.entries()) {
      expect(hour).toMatch(/:00:00\.000Z$/)
      expect(hours[at]).toBe(last - (23 - at) * 3_600_000)
      expect([requests, errors]).toEqual([0, 0])
    }
  })

  it('counts requests to an app and errors, across a restart of the server, until the project is deleted', async () => {
    await using source = await repository(countingApp)
    const { id } = await server.client.projects.create({ body: { name: 'busy' } })
    const other = await server.client.projects.create({ body: { name: 'another' } })
    const made = await deployAndSettle(server.client, id, { name: 'web', git_url: source.url })
    const ask = async (path: string, method = 'GET') => {
      const response = await fetch(made.url + path, { method })
      return { status: response.status, text: await response.text() }
    }
    expect((await ask('/missing')).status).toBe(404)
    expect((await ask('/error')).status).toBe(500)
    expect((await ask('/error')).status).toBe(500)
    // The gateway does not retry it, because the app may have processed it.
    expect((await ask('/broken', 'POST')).status).toBe(502)
    const seen = Number((await ask('/count')).text)
    expect(seen).toBeGreaterThanOrEqual(5)
    await expect.poll(() => totalOf(id)).toEqual({ requests: seen, errors: 3 })
    expect(await totalOf(other.id)).toEqual({ requests: 0, errors: 0 })

    await Promise.all(Array.from({ length: 20 }, () => ask('/')))
    await server.restart()
    expect((await totalOf(id)).requests).toBeGreaterThanOrEqual(seen + 20)

    await server.client.deployments.stop({ params: { project_id: id, id: made.id } })
    await expect.poll(async () => (await ask('/')).status).toBe(503)
    await expect.poll(async () => (await totalOf(id)).errors).toBeGreaterThan(3)

    await server.client.projects.delete({ params: { project_id: id } })
    const rows = () => server.database.query('select app_id from app_traffic')
    await expect.poll(rows).toEqual([])
  })

  it('keeps only some days', async () => {
    await using source = await repository(countingApp)
    const { id } = await server.client.projects.create({ body: { name: 'old' } })
    await deployAndSettle(server.client, id, { name: 'web', git_url: source.url })
    await server.database.query(
      `insert into app_traffic (app_id, hour, requests, errors)
      select id, date_trunc('hour', now()) - days * interval '1 day', 7, 0
      from apps, unnest(array[2, 4, 30]) as days where project_id = $1`,
      [id],
    )
    await server.restart()
    const left = () =>
      server.database.query(
        `select distinct extract(day from now() - hour)::integer as days from app_traffic where requests = 7`,
      )
    await expect.poll(left).toEqual([{ days: 2 }])
  })
})
