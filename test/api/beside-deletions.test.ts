import { afterAll, beforeAll, expect, it } from 'vitest'
import { operations } from '../../server/src/contract/operations.ts'
import { newId } from '../../server/src/platform/ids.ts'
import { inTheMiddle } from '../harness/in-the-middle.ts'
import { type ServerWithProject, serverWithProject } from '../harness/project.ts'
import { paramKinds, pathOf, requestOf } from '../harness/requests.ts'

/* Operations that begin before the deletion of their resource, and read the resource before the deletion commits. */

let given: ServerWithProject
beforeAll(async () => {
  given = await serverWithProject()
})
afterAll(() => given?.[Symbol.asyncDispose]())

type Parent = 'app' | 'deployment' | 'webhook'
type Operation = (typeof operations)[number]

/** The kinds of resources that a deletion removes, among the test's resources. */
const removed: Readonly<Record<Parent, readonly string[]>> = {
  app: ['app', 'deployment', 'schedule'],
  deployment: ['deployment'],
  webhook: ['webhook'],
}

/** Bodies that reach the parent's row, where the declaration's example does not. */
const bodies: Readonly<Record<string, object>> = {
  'schedules.create': { name: 'nightly', schedule: '30 4 * * *', command: ['true'] },
  'schedules.update': { schedule: '30 5 * * *' },
  'processes.update': { processes: { web: { instances: 1 } } },
}

/** The changes of a resource and of the resources below it. */
const changesOf = (parent: Parent): readonly Operation[] =>
  operations.filter(
    (operation) =>
      operation.method !== 'GET' &&
      !operation.upload &&
      Object.values(paramKinds(operation)).some((kind) => removed[parent].includes(kind)),
  )

/** Makes an app with a stopped release and a schedule, and a webhook. */
async function resources() {
  const { server, projectId } = given
  const app = await given.appRow()
  const deployment = newId('deployment')
  await server.database.query(
    `insert into deployments (id, project_id, app_id, account_id, status, retained, generation, git_url, variables, variable_origins, triggered_by, runtime)
     values ($1, $2, $3, $4, 'stopped', true, 1, 'https://example.com/a.git', '', '{"given": [], "plain": []}', '{"kind": "key"}', 'process')`,
    [deployment, projectId, app, server.accountId],
  )
  const webhook = newId('webhook')
  await server.database.query(
    `insert into webhooks (id, account_id, url, events, secret, status)
     values ($1, $2, 'https://example.com/', '{none}', '', 'enabled')`,
    [webhook, server.accountId],
  )
  const schedule = newId('schedule')
  await server.database.query(
    `insert into schedules (id, app_id, project_id, account_id, name, schedule, timezone, command, overlap, next_at)
     values ($1, $2, $3, $4, 's', '0 3 1 1 *', 'UTC', '["true"]', 'forbid', now() + interval '1 day')`,
    [schedule, app, projectId, server.accountId],
  )
  return { app, deployment, schedule, webhook }
}

const deletions: Readonly<Record<Parent, readonly string[]>> = {
  app: ['delete from deployments where app_id = $1', 'delete from apps where id = $1'],
  deployment: ['delete from deployments where id = $1'],
  webhook: ['delete from webhooks where id = $1'],
}

it.each<[Parent, string, Operation]>(
  (['app', 'deployment', 'webhook'] as const).flatMap((parent) =>
    changesOf(parent).map((operation): [Parent, string, Operation] => [parent, operation.name, operation]),
  ),
)('beside the deletion of its %s, %s answers 404', async (parent, _, operation) => {
  const { server, projectId } = given
  const ids = await resources()
  const params = Object.fromEntries(
    Object.entries(paramKinds(operation)).map(([param, kind]) => {
      const known: Readonly<Record<string, string>> = { project: projectId, ...ids }
      return [param, known[kind] ?? newId(kind)]
    }),
  )
  const init = requestOf(operation, bodies[operation.name])
  const headers = new Headers(init?.headers)
  headers.set('authorization', `Bearer ${server.apiKey}`)
  const [answer] = await inTheMiddle(
    server.database,
    async (own) => {
      for (const statement of deletions[parent]) await own.query(statement, [ids[parent]])
    },
    () => [fetch(server.baseUrl + pathOf(operation, params as never), { ...init, headers })],
  )
  // A deletion that finds nothing to delete has succeeded.
  const fine = operation.method === 'DELETE' ? [404, 204] : [404]
  expect([answer?.status, await answer?.text()]).toEqual([expect.toBeOneOf(fine), expect.anything()])
})
