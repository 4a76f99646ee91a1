import { setTimeout as pause } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { serverWithProject } from '../../harness/project.ts'
import { instancesAt } from '../../harness/replicas.ts'
import { repository } from '../../harness/repository.ts'

const soon = { timeout: 90_000, interval: 200 }

/** An app whose instance becomes unhealthy after a request for `/break`, and continues to answer. */
const app = {
  'package.json': JSON.stringify({ scripts: { start: 'node server.js' } }),
  'fairlead.json': JSON.stringify({ health: '/health', processes: { web: { instances: 2 } } }),
  'server.js': `const instance = require('node:crypto').randomUUID()
let healthy = true
require('node:http').createServer((request, response) => {
  response.setHeader('X-Instance', instance)
  if (request.url === '/break') healthy = false
  response.statusCode = request.url === '/health' && !healthy ? 503 : 200
  response.end('ok')
}).listen(process.env.PORT)
`,
}

it('an instance that becomes unhealthy is restarted, without a failed request of its app', {
  timeout: 180_000,
}, async () => {
  await using source = await repository(app)
  await using given = await serverWithProject()
  const { id, url } = await given.deploy('sick', source.url)
  const before = await instancesAt(url)
  expect(before.size).toBe(2)
  const broken = (await fetch(`${url}/break`, { method: 'POST' })).headers.get('x-instance') ?? ''
  const failed: string[] = []
  let isOver = false
  const load = (async () => {
    for (let at = 0; !isOver; at += 1) {
      const answer = await fetch(url, { method: at % 2 === 0 ? 'GET' : 'POST' }).catch((error: Error) => error)
      if (!(answer instanceof Response) || answer.status !== 200) failed.push(String(answer))
      else await answer.arrayBuffer()
      await pause(5)
    }
  })()
  await expect.poll(async () => (await instancesAt(url)).has(broken), soon).toBe(false)
  await expect.poll(async () => (await instancesAt(url)).size, soon).toBe(2)
  isOver = true
  await load
  expect(failed).toEqual([])
  const healthy = [...before].filter((each) => each !== broken)
  expect([...(await instancesAt(url))]).toEqual(expect.arrayContaining(healthy))
  const log = async () => (await given.client.deployments.logs(given.paramsOf(id))).text()
  await expect
    .poll(log, soon)
    .toMatch(/Fairlead starts web\.[12] again: it failed 3 health checks in a row; .* status 503\./)
  const { status } = await given.client.deployments.get(given.paramsOf(id))
  expect(status).toBe('running')
})
