import { rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { query } from '../../harness/databases.ts'
import { deployAndSettle } from '../../harness/deployments.ts'
import { type ServerWithProject, serverWithProject } from '../../harness/project.ts'
import { repository } from '../../harness/repository.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

let given: ServerWithProject
beforeAll(async () => {
  given = await serverWithProject()
})
afterAll(() => given?.[Symbol.asyncDispose]())

const patience = { timeout: 60_000 }
const driver = createRequire(import.meta.url).resolve('pg')

/**
 * An app with a worker and two instances. Each returns its number and its connection string after a new connection to
 * the database.
 */
const app = (listens: string) => ({
  'package.json': JSON.stringify({ scripts: { start: 'node server.js' } }),
  'server.js': `const database = process.env.DATABASE_URL
const instance = Math.random()
const { Client } = require(${JSON.stringify(driver)})
const connect = async () => {
  const client = new Client(database)
  client.on('error', () => undefined)
  await client.connect()
  await client.query('select 1')
  await client.end()
}
console.log('connects to ' + database)
const server = require('node:http').createServer((request, response) => connect().then(
  () => response.end(JSON.stringify({ instance, database })),
  (error) => response.writeHead(500).end(String(error))))
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
  const { id: database, connection_string } = await given.client.databases.create({ params, body: { name } })
  const read = async () => (await given.client.databases.get({ params: { ...params, id: database } })).status
  await expect.poll(read, patience).toBe('available')
  const body = { name, git_url: source.url, databases: { DATABASE_URL: database } }
  const { id, url, status, failure } = await deployAndSettle(given.client, given.projectId, body)
  expect([status, failure]).toEqual(['running', null])
  return {
    url,
    connection_string,
    deployment: () => given.client.deployments.get(given.paramsOf(id)),
    log: async () => (await given.client.deployments.logs(given.paramsOf(id))).text(),
    rotate: () => given.client.databases.rotatePassword(given.paramsOf(database)),
  }
}

/** Requests the app repeatedly, and records each response that is not the app's. */
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
    /** The connection strings of the instances that gave the latest responses. */
    seen: () => [...new Map(recent.map(({ instance, database }) => [instance, database])).values()],
    failed,
    async [Symbol.asyncDispose]() {
      over.abort()
      await visiting
    },
  }
}

/** Resolves to `open` for a working connection string, otherwise to the error's code. */
const tried = (address: string) =>
  query(address, 'select 1').then(
    () => 'open',
    (error: { code: string }) => error.code,
  )

it('an app that connects for each request answers all requests while rotations replace its instances', async () => {
  await using directory = await temporaryDirectory()
  const mayListen = join(directory.path, 'may-listen')
  await writeFile(mayListen, '')
  const listens = `const { existsSync } = require('node:fs')
const wait = () => existsSync(${JSON.stringify(mayListen)}) ? listen() : setTimeout(wait, 20)
wait()`
  const app = await linked('rotates', listens)
  await using visiting = visitors(app.url)
  await expect.poll(() => visiting.seen(), patience).toHaveLength(2)
  const before = await app.deployment()

  // Until the next instances listen, the instances in use need the former password.
  await rm(mayListen)
  const { connection_string: second } = await app.rotate()
  expect(await Promise.all([app.connection_string, second].map(tried))).toEqual(['open', 'open'])
  await writeFile(mayListen, '')
  await expect.poll(() => visiting.seen(), patience).toEqual([second, second])
  await expect.poll(async () => (await app.log()).match(/works at 43/g), patience).toHaveLength(2)

  // The first password is still valid: this rotation ends it.
  await rm(mayListen)
  const { connection_string: third } = await app.rotate()
  expect(await Promise.all([app.connection_string, second, third].map(tried))).toEqual(['28P01', 'open', 'open'])
  await writeFile(mayListen, '')
  await expect.poll(() => visiting.seen(), patience).toEqual([third, third])
  await expect.poll(() => tried(second), patience).toBe('28P01')
  expect(visiting.failed).toEqual([])
  expect(await app.deployment()).toEqual(before)

  const passwords = [app.connection_string, second, third].map((address) => new URL(address).password)
  const log = await app.log()
  expect(log.match(/connects to/g)?.length).toBeGreaterThanOrEqual(4)
  expect(passwords.filter((password) => log.includes(password))).toEqual([])
}, 180_000)
