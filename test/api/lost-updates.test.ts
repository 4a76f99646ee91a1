import { afterAll, beforeAll, expect, it } from 'vitest'
import { z } from 'zod'
import { operations } from '../../server/src/contract/operations.ts'
import { newId } from '../../server/src/platform/ids.ts'
import { ask, withKey } from '../harness/conformance.ts'
import { inTheMiddle } from '../harness/in-the-middle.ts'
import { type ServerWithProject, serverWithProject } from '../harness/project.ts'

/* Changes that have read the same row, and write it one after another. */

let given: ServerWithProject
beforeAll(async () => {
  given = await serverWithProject()
})
afterAll(() => given?.[Symbol.asyncDispose]())

const caller = () => withKey(given.server, given.server.apiKey)
const noon = { schedule: '0 12 * * *', timezone: 'UTC', command: ['true'] as [string] }

async function schedules(...names: string[]) {
  const params = { project_id: given.projectId, app_id: await given.appRow() }
  const ids: string[] = []
  for (const name of names) ids.push((await given.client.schedules.create({ params, body: { name, ...noon } })).id)
  return { params, ids }
}

/** Locks rows of a table as a running change does. */
const locked = (table: string, ids: readonly string[]) => (own: ServerWithProject['server']['database']) =>
  own.query(`select from ${table} where id = any($1) order by id for update`, [ids])

interface Patched {
  readonly table: string
  /** Makes a resource, and returns the parameters of its path; the last parameter is the resource's id. */
  readonly make: () => Promise<Readonly<Record<string, string>>>
  /** A new value of each field. */
  readonly values: Readonly<Record<string, unknown>>
}

const patched: Readonly<Record<string, Patched>> = {
  'projects.update': {
    table: 'projects',
    async make() {
      return { project_id: (await given.client.projects.create({ body: { name: 'old', plan: 'enterprise' } })).id }
    },
    values: { name: 'new', plan: 'free' },
  },
  'schedules.update': {
    table: 'schedules',
    async make() {
      const { params, ids } = await schedules('old')
      return { ...params, id: ids[0] ?? '' }
    },
    values: { name: 'new', schedule: '30 5 * * *', timezone: 'Asia/Tokyo', command: ['false'], overlap: 'allow' },
  },
  'webhooks.update': {
    table: 'webhooks',
    async make() {
      return { id: (await given.client.webhooks.create({ body: { url: 'https://example.com/old' } })).id }
    },
    get values() {
      const project_id = given.projectId
      return { url: 'https://example.com/new', events: ['ping'], project_id, rate: 5, status: 'disabled' }
    },
  },
}

/** Changes whose fields form one value, so that the later change wins. */
const wholes = ['variables.update', 'domains.update']

it('the tests cover every change of single fields', () => {
  const several = operations.filter(
    ({ method, body }) => method === 'PATCH' && body instanceof z.ZodObject && Object.keys(body.shape).length > 1,
  )
  expect(several.map(({ name }) => name).sort()).toEqual([...Object.keys(patched), ...wholes].sort())
})

it.each(Object.keys(patched))('%s: all concurrent changes of different fields are kept', async (name) => {
  const { table, make, values } = patched[name] as Patched
  const params = await make()
  const id = Object.values(params).at(-1) ?? ''
  const answers = await inTheMiddle(given.server.database, locked(table, [id]), () =>
    Object.entries(values).map(([field, value]) =>
      ask(caller(), name as 'webhooks.update', params as never, { [field]: value }),
    ),
  )
  expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200))
  const { text } = await ask(caller(), name.replace('update', 'get') as 'webhooks.get', params as never)
  expect(JSON.parse(text)).toMatchObject(values)
})

it('a new time and a new time zone of a schedule are both kept, and the next time follows both', async () => {
  const { params, ids } = await schedules('one')
  const of = { ...params, id: ids[0] ?? '' }
  await inTheMiddle(given.server.database, locked('schedules', ids), () => [
    ask(caller(), 'schedules.update', of, { schedule: '30 5 * * *' }),
    ask(caller(), 'schedules.update', of, { timezone: 'Asia/Tokyo' }),
  ])
  const schedule = await given.client.schedules.get({ params: of })
  expect(schedule).toMatchObject({ schedule: '30 5 * * *', timezone: 'Asia/Tokyo' })
  expect(schedule.next_at).toContain('T20:30:00')
})

it('of two renames of schedules to one name, and of two new schedules with one name, one is refused', async () => {
  const { params, ids } = await schedules('one', 'two')
  const renamed = await inTheMiddle(given.server.database, locked('schedules', ids), () =>
    ids.map((id) => ask(caller(), 'schedules.update', { ...params, id }, { name: 'same' })),
  )
  const made = await inTheMiddle(given.server.database, locked('apps', [params.app_id]), () =>
    [1, 2].map(() => ask(caller(), 'schedules.create', params, { name: 'new', ...noon })),
  )
  expect(renamed.map(({ status }) => status).sort()).toEqual([200, 400])
  expect(made.map(({ status }) => status).sort()).toEqual([201, 400])
})

it('of two renames of apps to one name, one is refused', async () => {
  const ids = [await given.appRow(), await given.appRow()]
  for (const id of ids)
    await given.server.database.query(
      `insert into deployments
         (id, project_id, app_id, account_id, status, generation, git_url, variables, variable_origins, triggered_by, runtime)
       values ($1, $2, $3, $4, 'stopped', 1, 'https://example.com/a.git', '', '{"given": [], "plain": []}',
         '{"kind": "user", "name": null, "repository": null, "run_url": null, "actor": null, "event": null}', 'process')`,
      [newId('deployment'), given.projectId, id, given.server.accountId],
    )
  const renamed = await inTheMiddle(given.server.database, locked('apps', ids), () =>
    ids.map((id) => ask(caller(), 'apps.update', { project_id: given.projectId, id }, { name: 'same' })),
  )
  expect(renamed.map(({ status }) => status).sort()).toEqual([200, 400])
})
