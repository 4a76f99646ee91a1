import { afterAll, beforeAll, expect, it } from 'vitest'
import { deployAndSettle } from '../../harness/deployments.ts'
import { type ServerWithProject, serverWithProject } from '../../harness/project.ts'
import { repository } from '../../harness/repository.ts'

let given: ServerWithProject
beforeAll(async () => {
  given = await serverWithProject()
})
afterAll(() => given?.[Symbol.asyncDispose]())

const patience = { timeout: 30_000 }

/** An app that tells its connection string and a number of each instance, and has two of them and a worker. */
const app = (listens: string) => ({
  'package.json': JSON.stringify({ scripts: { start: 'node server.js' } }),
  'server.js': `const database = process.env.DATABASE_URL
const instance = Math.random()
const server = require('node:http').createServer((request, response) =>
  response.end(JSON.stringify({ instance, database })))
const listen = () => server.listen(process.env.PORT)
${listens}`,
  'worker.js': `console.log('works at ' + new URL(process.env.DATABASE_URL).password.length)
setInterval(() => undefined, 1000)`,
  'fairlead.json': JSON.stringify({
    processes: { web: { instances: 2 }, worker: { command: ['node', 'worker.js'], instances: 1 } },
  }),
})

/** Deploys the app with a database, and returns both. */
async function linked(name: string, listens: string) {
  await using source = await repository(app(listens))
  const params = { project_id: given.projectId }
  const { id: database } = await given.client.databases.create({ params, body: { name } })
  const read = async () => (await given.client.databases.get({ params: { ...params, id: database } })).status
  await expect.poll(read, patience).toBe('available')
  const body = { name, git_url: source.url, databases: { DATABASE_URL: database } }
  const { id, url, status, failure } = await deployAndSettle(given.client, given.projectId, body)
  expect([status, failure]).toEqual(['running', null])
  return {
    url,
    deployment: () => given.client.deployments.get(given.paramsOf(id)),
    log: async () => (await given.client.deployments.logs(given.paramsOf(id))).text(),
    rotate: () => given.client.databases.rotatePassword(given.paramsOf(database)),
  }
}

/** Asks the app again and again, and notes each answer that is not the app's. */
function visitors(url: string) {
  const over = new AbortController()
  const recent: { instance: number; database: string }[] = []
  const failed: string[] = []
  const visit = async () => {
    while (!over.signal.aborted) {
      const text = await fetch(url).then(
        async (response) => (response.ok ? await response.text() : `{"failed":"${response.status}"}`),
        (error: unknown) => JSON.stringify({ failed: String(error) }),
      )
      const { instance, database, failed: problem } = JSON.parse(text)
      if (problem === undefined) recent.push({ instance, database })
      else failed.push(problem)
      if (recent.length > 50) recent.shift()
    }
  }
  const visiting = Promise.all([visit(), visit(), visit()])
  return {
    /** The connection strings of the instances that gave the latest answers. */
    seen: () => [...new Map(recent.map(({ instance, database }) => [instance, database])).values()],
    failed,
    async [Symbol.asyncDispose]() {
      over.abort()
      await visiting
    },
  }
}

it('an app answers every request while a rotation replaces all its instances', async () => {
  const { url, rotate, deployment, log } = await linked('rotates', 'setTimeout(listen, 1000)')
  await using visiting = visitors(url)
  await expect.poll(() => visiting.seen(), patience).toHaveLength(2)
  const first = await deployment()
  const { connection_string } = await rotate()
  const both = [connection_string, connection_string]
  await expect.poll(() => visiting.seen(), patience).toEqual(both)
  await expect.poll(async () => (await log()).match(/works at 43/g), patience).toHaveLength(2)
  expect(visiting.failed).toEqual([])
  expect(await deployment()).toEqual(first)
})
