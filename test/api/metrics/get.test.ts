import { isDeepStrictEqual } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectNotFound, succeed, withKey } from '../../harness/conformance.ts'
import { type OwnServerWithProject, ownServerWithProject } from '../../harness/project.ts'
import { repository } from '../../harness/repository.ts'

let given: OwnServerWithProject
beforeAll(async () => {
  given = await ownServerWithProject()
})
afterAll(() => given?.[Symbol.asyncDispose]())

const caller = () => withKey(given.server, given.server.apiKey)

const app = {
  'package.json': JSON.stringify({ scripts: { start: 'node server.js' } }),
  'server.js': `require('node:http').createServer((request, response) => {
  response.statusCode = request.url === '/error' ? 500 : request.url === '/missing' ? 404 : 200
  setTimeout(() => response.end(), request.url === '/slow' ? 300 : 0)
  if (request.url !== '/slow') response.flushHeaders()
}).listen(process.env.PORT)
`,
}

describe('GET /projects/:project_id/apps/:app_id/metrics', () => {
  it('has requests, times, memory, CPU and releases of an app, even after a restart of the server', async () => {
    await using source = await repository(app)
    const { id, url } = await given.deploy('busy', source.url)
    const params = { project_id: given.projectId, app_id: (await given.appNamed('busy')).id }
    for (const path of ['/missing', '/error', '/error', '/slow', '/slow', '/slow'])
      await (await fetch(url + path)).text()
    await given.server.restart()
    const read = (range: '1h' | '24h' | '7d') => given.client.metrics.get({ params, query: { range } })
    const { totals, points, releases, ...rest } = await succeed(caller(), 'metrics.get', params)
    expect(rest).toEqual({ range: '1h', step_seconds: 60 })
    expect(totals).toMatchObject({ status_4xx: 1, status_5xx: 2, restarts: 0 })
    expect(totals.requests).toBeGreaterThanOrEqual(6)
    expect(totals.p99_ms).toBeGreaterThan(240)
    expect(releases).toMatchObject([{ id, status: 'running' }])
    expect(points).toHaveLength(60)
    const measured = points.findLast(({ memory_bytes }) => memory_bytes !== null)
    expect(measured).toMatchObject({ memory_limit_bytes: 4e9, cpu_limit: 4, instances: 1 })
    expect(measured?.memory_bytes).toBeGreaterThan(1e6)
    expect((await read('24h')).points).toHaveLength(144)
    // The server's own requests to the restarted app may be counted between two readings.
    const bothTotals = async () => [(await read('1h')).totals, (await read('7d')).totals]
    await expect.poll(bothTotals).toSatisfy(([hour, week]) => isDeepStrictEqual(hour, week))
    const { processes } = await given.client.processes.list({ params })
    expect(processes[0]?.running[0]?.usage?.memory_bytes).toBeGreaterThan(1e6)
  })

  it('answers 400 to another range, and 404 with the body of an app that never existed', async () => {
    const id = await given.appRow()
    const params = { project_id: given.projectId, app_id: id }
    const { baseUrl, apiKey } = given.server
    const address = `${baseUrl}/projects/${given.projectId}/apps/${id}/metrics?range=2h`
    const refused = await fetch(address, { headers: { authorization: `Bearer ${apiKey}` } })
    expect([refused.status, await refused.text()]).toEqual([
      400,
      expect.stringContaining('must be one of: 1h, 24h, 7d'),
    ])
    await expectNotFound(given.server, 'metrics.get', params)
  })
})
