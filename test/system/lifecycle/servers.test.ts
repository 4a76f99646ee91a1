import { join } from 'node:path'
import { type Client, createClient } from '@fairlead/server/client'
import { Client as Postgres } from 'pg'
import { pino } from 'pino'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { createAccountStore } from '../../../server/src/features/accounts/accounts.ts'
import { createKeys } from '../../../server/src/features/accounts/keys.ts'
import { presets } from '../../../server/src/features/accounts/scopes.ts'
import { loadConfig } from '../../../server/src/platform/config.ts'
import { openDatabase } from '../../../server/src/platform/database.ts'
import { type FairleadServer, startServer } from '../../../server/src/server.ts'
import { testDatabase } from '../../harness/database.ts'
import { deployAndSettle, hangingBuild, processesOf, settled } from '../../harness/deployments.ts'
import { freePort, portSettings } from '../../harness/ports.ts'
import { releasesOnDisk } from '../../harness/releases.ts'
import { type Repository, repository } from '../../harness/repository.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

/*
 * Three servers on one database and one data directory. The first server leads, the others answer requests; in the end
 * the first one stops, and another leads.
 */

interface Running {
  readonly url: string
  readonly client: Client
  readonly server: FairleadServer
  readonly log: Record<string, unknown>[]
}

const cleanup = new AsyncDisposableStack()
const patience = { timeout: 60_000 }
let start: (environment?: Readonly<Record<string, string>>) => Promise<Running>
let leader: Running
let second: Running
let third: Running
let dataDirectory: string
let app: Repository
let hanging: Repository
let project_id: string

beforeAll(async () => {
  const database = cleanup.use(await testDatabase())
  dataDirectory = join(cleanup.use(await temporaryDirectory()).path, 'data')
  const { db, close } = openDatabase({ connectionString: database.url, max: 2 }, pino({ level: 'silent' }))
  cleanup.defer(close)
  const { key } = await createKeys({ database: db }).create({
    accountId: await createAccountStore({ database: db }).ensureOperator(),
    name: 'test',
    scopes: presets.full,
    projectIds: null,
  })
  start = async (environment = {}) => {
    const log: Record<string, unknown>[] = []
    const logger = pino({ level: 'debug', base: null }, { write: (line: string) => void log.push(JSON.parse(line)) })
    const set = {
      PATH: process.env['PATH'],
      DATABASE_URL: database.url,
      FAIRLEAD_PORT: String(await freePort()),
      FAIRLEAD_DATA_DIR: dataDirectory,
      FAIRLEAD_BUILD_ENV: JSON.stringify(inject('buildEnvironment')),
      FAIRLEAD_STABLE_TIME: '0.1',
      FAIRLEAD_DRAIN_TIMEOUT: '1',
      FAIRLEAD_METRICS_TOKEN: 'a-token-of-some-length',
      ...portSettings,
      ...environment,
    }
    const server = await startServer({
      config: loadConfig({}, set),
      logger,
      strictResponses: true,
      onFatal: (error) => {
        throw error
      },
    })
    cleanup.defer(() => server.stop('all'))
    return { server, url: server.url, log, client: createClient({ baseUrl: `${server.url}/v1`, apiKey: key }) }
  }
  leader = await start()
  ;[second, third] = await Promise.all([start(), start()])
  app = cleanup.use(
    await repository({
      'package.json': JSON.stringify({ scripts: { start: 'node server.js' } }),
      'server.js': `const server = require('node:http').createServer((_, response) => response.end('hello'))
server.listen(process.env.PORT, () => console.log('listening'))`,
    }),
  )
  hanging = cleanup.use(await repository(hangingBuild))
  project_id = (await second.client.projects.create({ body: { name: 'shared', plan: 'enterprise' } })).id
})
afterAll(() => cleanup.disposeAsync())

const paramsOf = (id: string) => ({ params: { project_id, id } })
const textOf = (url: string) => fetch(url).then((answer) => answer.text(), String)
const logOf = async ({ client }: Running, id: string) => (await client.deployments.logs(paramsOf(id))).text()
const roleOf = async ({ url }: Running) =>
  /^fairlead_role\{role="(\w+)"\} 1$/m.exec(
    await (await fetch(`${url}/metrics`, { headers: { authorization: 'Bearer a-token-of-some-length' } })).text(),
  )?.[1]

async function connectsTo(connectionString: string): Promise<string> {
  const client = new Postgres({ connectionString })
  try {
    await client.connect()
    return 'connected'
  } catch (error) {
    return (error as { code?: string }).code ?? String(error)
  } finally {
    await client.end().catch(() => undefined)
  }
}

it('one leads, and all are ready', async () => {
  expect(await Promise.all([leader, second, third].map(roleOf))).toEqual(['leader', 'follower', 'follower'])
  for (const { url } of [leader, second, third]) expect((await fetch(`${url}/readyz`)).status).toBe(200)
})

it('a server with another data directory does not start, and says why', async () => {
  const other = cleanup.use(await temporaryDirectory())
  await expect(start({ FAIRLEAD_DATA_DIR: join(other.path, 'data') })).rejects.toThrow(
    'Another Fairlead server with another data directory is running on this database.',
  )
})

describe('followers', () => {
  it('deploy, and every server has the log', async () => {
    const { id, url } = await deployAndSettle(second.client, project_id, { name: 'web', git_url: app.url })
    expect(await textOf(url)).toBe('hello')
    for (const server of [leader, second, third]) {
      await expect.poll(() => logOf(server, id), patience).toContain('listening')
    }
  })

  it('stop, restart, replace, roll back and delete other servers’ deployments', async () => {
    const first = await deployAndSettle(second.client, project_id, { name: 'changes', git_url: app.url })
    expect(await third.client.deployments.stop(paramsOf(first.id))).toMatchObject({ status: 'stopped' })
    await expect.poll(() => processesOf(first.id), patience).toEqual([])
    await second.client.deployments.restart(paramsOf(first.id))
    expect(await settled(third.client, project_id, first.id)).toMatchObject({ status: 'running' })
    const next = await deployAndSettle(third.client, project_id, { name: 'changes', git_url: app.url })
    await expect.poll(() => processesOf(first.id), patience).toEqual([])
    await second.client.deployments.rollback(paramsOf(first.id))
    expect(await settled(third.client, project_id, first.id)).toMatchObject({ status: 'running' })
    await expect.poll(() => processesOf(next.id), patience).toEqual([])
    expect(await textOf(first.url)).toBe('hello')

    await second.client.deployments.stop(paramsOf(first.id))
    for (const { id } of [next, first]) await third.client.deployments.delete(paramsOf(id))
    await expect.poll(() => textOf(first.url), patience).toContain('fetch failed')
    await expect
      .poll(() => releasesOnDisk(dataDirectory), patience)
      .not.toContainEqual(expect.stringMatching(`${first.id}|${next.id}`))
  })

  it('cancel a build completely', async () => {
    const { id } = await second.client.deployments.create({
      params: { project_id },
      body: { name: 'hangs', git_url: hanging.url },
    })
    await expect.poll(() => logOf(third, id), patience).toContain('building')
    expect(await third.client.deployments.cancel(paramsOf(id))).toMatchObject({ status: 'canceled' })
    await expect.poll(() => processesOf(id), patience).toEqual([])
    await expect.poll(() => releasesOnDisk(dataDirectory), patience).not.toContainEqual(expect.stringContaining(id))
  })

  it('store files that are available on every server', async () => {
    const body = new FormData()
    body.append('file', new Blob(['the bytes']), 'a.txt')
    const file = await second.client.storage.upload({ params: { project_id }, body })
    const { pathname } = new URL(file.url)
    for (const { url } of [leader, second, third]) expect(await textOf(`${url}${pathname}`)).toBe('the bytes')
  })

  it('create databases, show their size and rotate their passwords', async () => {
    const made = await second.client.databases.create({ params: { project_id }, body: { name: 'data' } })
    await expect
      .poll(async () => (await third.client.databases.get(paramsOf(made.id))).status, { timeout: 100_000 })
      .toBe('available')
    for (const { client } of [leader, second, third]) {
      expect(await client.databases.get(paramsOf(made.id))).toMatchObject({ size_bytes: expect.any(Number) })
    }
    expect(await connectsTo(made.connection_string)).toBe('connected')
    const rotated = await third.client.databases.rotatePassword(paramsOf(made.id))
    expect(await connectsTo(made.connection_string)).toBe('28P01')
    expect(await connectsTo(rotated.connection_string)).toBe('connected')
  })
})

it('when only the leader stops, another leads, and apps keep running', async () => {
  const { id, url } = await deployAndSettle(second.client, project_id, { name: 'stays', git_url: app.url })
  const processes = await processesOf(id)
  const begun = await second.client.deployments.create({
    params: { project_id },
    body: { name: 'is built again', git_url: hanging.url },
  })
  await expect.poll(() => logOf(third, begun.id), patience).toContain('building')

  await leader.server.stop('server')
  await expect
    .poll(async () => (await Promise.all([second, third].map(roleOf))).sort(), patience)
    .toEqual(['follower', 'leader'])
  await expect.poll(() => textOf(url), patience).toBe('hello')
  expect(await processesOf(id)).toEqual(processes)
  // The next leader repeats the interrupted build, which has not failed.
  await expect.poll(() => processesOf(begun.id), patience).not.toEqual([])
  expect(await second.client.deployments.cancel(paramsOf(begun.id))).toMatchObject({ status: 'canceled' })
  await expect.poll(() => processesOf(begun.id), patience).toEqual([])

  const back = await start()
  expect(await roleOf(back)).toBe('follower')
  await deployAndSettle(back.client, project_id, { name: 'stays', git_url: app.url })
  await expect.poll(() => processesOf(id), patience).toEqual([])
})
