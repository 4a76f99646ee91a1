import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { json } from 'node:stream/consumers'
import { expect, it } from 'vitest'
import { type OperationName, routes } from '../../../server/src/contract/routes.ts'
import { shippedPlans } from '../../../server/src/platform/plans.ts'
import { attacks } from '../../harness/attacks/attack.ts'
import type { HostileServer, Tenant } from '../../harness/attacks/server.ts'
import { bundleOf, uploadBundle } from '../../harness/bundle.ts'
import { hangingBuild, settled } from '../../harness/deployments.ts'
import { gitServer } from '../../harness/git-server.ts'
import { nodeApp, repository } from '../../harness/repository.ts'
import { upload } from '../../harness/storage.ts'
import { newUser } from './users.ts'

const limits = {
  projects: 12,
  apps: 2,
  building: 2,
  deployments_per_hour: 6,
  storage_gb: 0.001,
  uploads: 1,
  sources: 3,
  api_keys: 4,
  webhook_tests_per_hour: 3,
  log_followers: 2,
  runs: 2,
  schedules: 1,
}
// The tests often read the state of a deployment.
const free = { ...shippedPlans.free, requests_per_hour: 100_000, account: { ...limits, webhooks: 2 } }

const code = 'invalid_request'
const beyond = (limit: keyof typeof limits) => ({
  code,
  details: { limit, most: expect.any(Number) },
})

/** Repeats a change until it is refused, and rejects with the refusal. At most `most` changes may succeed. */
async function untilRefused(most: number, change: () => Promise<unknown>): Promise<void> {
  for (let times = 0; times <= most; times++) await change()
}

/** The repository of an app, which is served as long as a fetch may need it. */
async function served(files: Readonly<Record<string, string>>) {
  await using cleanup = new AsyncDisposableStack()
  const source = cleanup.use(await repository(files))
  const { url } = cleanup.use(await gitServer(source))
  const owned = cleanup.move()
  return { url, [Symbol.asyncDispose]: () => owned.disposeAsync() }
}

const deploy = ({ client, project }: Tenant, name: string, git_url: string) =>
  client.deployments.create({ params: { project_id: project }, body: { name, git_url } })

async function keys({ account }: Tenant, server: HostileServer): Promise<void> {
  const { apiKeys } = (await newUser(server, account)).browser.client
  const create = () => apiKeys.create({ body: { name: 'k', preset: 'full' } })
  await expect(untilRefused(limits.api_keys, create)).rejects.toMatchObject(beyond('api_keys'))
  const { id = '' } = (await apiKeys.list()).api_keys.find((key) => key.name === 'k') ?? {}
  await expect(apiKeys.rotate({ params: { id }, body: {} })).rejects.toMatchObject(beyond('api_keys'))
}

async function deployments(tenant: Tenant): Promise<void> {
  const { client, project } = tenant
  await using app = await served(nodeApp('here'))
  const { id } = await deploy(tenant, 'one', app.url)
  expect((await settled(client, project, id)).status).toBe('running')
  await deploy(tenant, 'two', app.url)
  await expect(deploy(tenant, 'three', app.url)).rejects.toMatchObject(beyond('apps'))
  const params = { project_id: project, id }
  const again = () => client.deployments.restart({ params }).then(() => settled(client, project, id))
  await expect(untilRefused(limits.deployments_per_hour, again)).rejects.toMatchObject(beyond('deployments_per_hour'))
  await expect(client.deployments.rollback({ params })).rejects.toMatchObject(beyond('deployments_per_hour'))
  await expect(deploy(tenant, 'one', app.url)).rejects.toMatchObject(beyond('deployments_per_hour'))
  const one = (await client.apps.list({ params: { project_id: project } })).apps.find(({ name }) => name === 'one')
  const apply = client.apps.apply({ params: { project_id: project, id: one?.id ?? '' }, body: {} })
  await expect(apply).rejects.toMatchObject(beyond('deployments_per_hour'))
}

async function builds(tenant: Tenant): Promise<void> {
  await using app = await served(hangingBuild)
  const builds = [await deploy(tenant, 'one', app.url), await deploy(tenant, 'two', app.url)]
  await expect(deploy(tenant, 'one', app.url)).rejects.toMatchObject(beyond('building'))
  for (const { id } of builds) await tenant.client.deployments.cancel({ params: { project_id: tenant.project, id } })
}

async function followers(tenant: Tenant, { server }: HostileServer): Promise<void> {
  await using app = await served(nodeApp('here'))
  const { id } = await deploy(tenant, 'one', app.url)
  const url = `${server.url}/v1/projects/${tenant.project}/deployments/${id}/logs`
  const headers = { Authorization: `Bearer ${tenant.key}`, Accept: 'text/event-stream' }
  const closed = new AbortController()
  const follow = () => fetch(url, { headers, signal: closed.signal })
  expect([(await follow()).status, (await follow()).status]).toEqual([200, 200])
  expect(await (await follow()).json()).toMatchObject({ error: beyond('log_followers') })
  closed.abort()
  await expect.poll(async () => (await fetch(url, { headers })).status).toBe(200)
}

async function runs(tenant: Tenant): Promise<void> {
  const { client, project: project_id } = tenant
  await using app = await served(nodeApp('here'))
  const { id } = await deploy(tenant, 'one', app.url)
  await settled(client, project_id, id)
  const app_id = (await client.apps.list({ params: { project_id } })).apps[0]?.id ?? ''
  const create = () => client.runs.create({ params: { project_id, app_id }, body: { command: ['true'] } })
  await expect(untilRefused(limits.runs, create)).rejects.toMatchObject(beyond('runs'))
  const body = (name: string) => ({ name, schedule: '5 4 * * *', command: ['true'] })
  const params = { project_id, app_id }
  await client.schedules.create({ params, body: body('first') })
  const second = client.schedules.create({ params, body: body('second') })
  await expect(second).rejects.toMatchObject(beyond('schedules'))
}

/** Runs all at the same time, so that none of them sees the others. */
async function projects({ client }: Tenant): Promise<void> {
  const creations = Array.from({ length: 2 * limits.projects }, () => client.projects.create({ body: { name: 'p' } }))
  const made = await Promise.allSettled(creations)
  // The tenant already has a project.
  expect(made.filter(({ status }) => status === 'fulfilled')).toHaveLength(limits.projects - 1)
  await expect(client.projects.create({ body: { name: 'p' } })).rejects.toMatchObject(beyond('projects'))
}

async function files({ client, project }: Tenant): Promise<void> {
  const { id: other } = await client.projects.create({ body: { name: 'other' } })
  const store = (to: string) => upload(client, to, 'f', 'x'.repeat(300_000))
  await store(project)
  await store(other)
  await expect(untilRefused(2, () => store(other))).rejects.toMatchObject({ code, details: { field: 'file' } })
}

async function uploads({ key, project }: Tenant, { server }: HostileServer): Promise<void> {
  const opened = Array.from({ length: 5 }, () => {
    const path = `/v1/projects/${project}/storage/upload`
    const sent = request({ port: new URL(server.url).port, method: 'POST', path, agent: false })
    sent.setHeader('Authorization', `Bearer ${key}`)
    sent.setHeader('Content-Type', 'multipart/form-data; boundary=b')
    sent.write('--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\nthe first bytes')
    return { sent, answer: once(sent, 'response') as Promise<[IncomingMessage]> }
  })
  const answers = opened.map(async ({ answer }) => {
    const [response] = await answer
    return json(response)
  })
  const refusal = { error: beyond('uploads') }
  // One upload holds the only slot.
  expect(await first(answers, 4)).toMatchObject([refusal, refusal, refusal, refusal])
  for (const { sent } of opened) sent.destroy()
  await Promise.allSettled(answers)
}

async function webhooks({ client }: Tenant): Promise<void> {
  const create = () => client.webhooks.create({ body: { url: 'http://127.0.0.1:9/' } })
  const { id } = await create()
  await expect(untilRefused(1, create)).rejects.toMatchObject({ code, details: { max_webhooks: 2 } })
  const params = { id }
  await expect(
    untilRefused(limits.webhook_tests_per_hour, () => client.webhooks.test({ params })),
  ).rejects.toMatchObject(beyond('webhook_tests_per_hour'))
  const recovery = client.webhooks.recover({ params, body: { since: '2026-01-01T00:00:00Z' } })
  await expect(recovery).rejects.toMatchObject(beyond('webhook_tests_per_hour'))
  const [delivery] = (await client.deliveries.list({ params: { webhook_id: id } })).deliveries
  const again = client.deliveries.redeliver({ params: { webhook_id: id, id: delivery?.id ?? '' } })
  await expect(again).rejects.toMatchObject(beyond('webhook_tests_per_hour'))
}

/** Runs all at the same time, so that none of them sees the others. */
async function sources({ client, project }: Tenant): Promise<void> {
  await using app = await repository(nodeApp('here'))
  const bundle = await bundleOf(app, 'main')
  const uploads = Array.from({ length: 2 * limits.sources }, () => uploadBundle(client, project, bundle))
  const made = await Promise.allSettled(uploads)
  expect(made.filter(({ status }) => status === 'fulfilled')).toHaveLength(limits.sources)
  await expect(uploadBundle(client, project, bundle)).rejects.toMatchObject(beyond('sources'))
}

type Changing = {
  [Name in OperationName]: (typeof routes)[Name]['method'] extends 'POST' ? Name : never
}[OperationName]

interface Trial {
  readonly held: string
  /** The operations with this kind of limit. */
  readonly operations: readonly Changing[]
  readonly body: (tenant: Tenant, server: HostileServer) => Promise<void>
}

const trials: Readonly<Record<string, Trial>> = {
  keys: {
    held: 'An account has a total of API keys, and rotations count',
    operations: ['apiKeys.create', 'apiKeys.rotate'],
    body: keys,
  },
  deployments: {
    held: 'An account has a total of apps, and of deployments, restarts and rollbacks within an hour',
    operations: ['deployments.create', 'deployments.restart', 'deployments.rollback', 'apps.apply'],
    body: deployments,
  },
  builds: { held: 'An account has a total of builds at once', operations: ['deployments.create'], body: builds },
  followers: { held: 'An account has a total of logs that it follows at once', operations: [], body: followers },
  runs: {
    held: 'An account has a total of commands at once, and of schedules',
    operations: ['runs.create', 'schedules.create'],
    body: runs,
  },
  projects: {
    held: 'An account has a total of projects, which requests at the same time cannot exceed',
    operations: ['projects.create'],
    body: projects,
  },
  files: {
    held: 'An account has a total of bytes in files, over all its projects',
    operations: ['storage.upload'],
    body: files,
  },
  uploads: { held: 'An account has a total of uploads at once', operations: ['storage.upload'], body: uploads },
  sources: {
    held: 'An account has a total of uploaded sources, which uploads at the same time cannot exceed',
    operations: ['sources.create'],
    body: sources,
  },
  webhooks: {
    held: 'An account has a total of webhooks, and of their tests, recoveries and redeliveries within an hour',
    operations: ['webhooks.create', 'webhooks.test', 'webhooks.recover', 'deliveries.redeliver'],
    body: webhooks,
  },
}

/** The other POST operations, and why they need no test here. */
const others: Partial<Readonly<Record<Changing, string>>> = {
  'deployments.cancel': 'ends what is there',
  'variables.copy': 'is limited to 200 variables of an app',
  'links.create': 'is limited by the names of variables, and a link holds nothing',
  'runs.cancel': 'ends what is there',
  'gitCredentials.set': 'replaces what is there, and an app has one',
  'registries.set': 'replaces what is there, and a project has at most 50',
  'variables.adopt': 'is limited to 200 variables of an app',
  'deployments.stop': 'ends what is there',
  'webhooks.rotateSecret': 'replaces what is there',
  'certificates.create': 'is tried with the attacks by domains',
  'certificates.renew': 'is tried with the attacks by domains',
  'certificates.revoke': 'ends what is there',
  'databases.create': 'is tried with the other limits of databases',
  'databases.restore': 'brings back what counts already',
  'databases.rotatePassword': 'replaces what is there',
  'domains.check': 'is tried with the attacks by domains',
  'domains.create': 'is tried with the attacks by domains',
  'trust.create': 'is for signed-in users, and a project has at most 100 rules',
  'snapshots.create': 'is limited by the plan of a database and the total of the account',
  'snapshots.restore': 'counts as a database',
}

attacks({ plans: { ...shippedPlans, free } }, (attack) => {
  for (const [name, { held, body }] of Object.entries(trials)) {
    attack({ id: `total-${name}`, topic: 'Limits', held }, async (server) => body(await server.tenant(name), server))
  }
})

it('each operation that may create something is limited, or needs no limit', () => {
  const tried = Object.values(trials).flatMap(({ operations }) => operations)
  const changing = Object.entries(routes).filter(([, { method }]) => method === 'POST')
  expect([...new Set([...tried, ...Object.keys(others)])].sort()).toEqual(changing.map(([name]) => name).sort())
})

/** Resolves with the first `count` results to arrive. */
function first<Result>(results: readonly Promise<Result>[], count: number): Promise<Result[]> {
  const arrived: Result[] = []
  return new Promise((done) => {
    for (const result of results) {
      result.then(
        (value) => {
          arrived.push(value)
          if (arrived.length === count) done(arrived)
        },
        () => undefined,
      )
    }
  })
}
