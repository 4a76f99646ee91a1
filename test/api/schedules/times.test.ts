import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { takes, testEndpoint } from '../../harness/endpoint.ts'
import { type ServerWithProject, serverWithProject } from '../../harness/project.ts'
import { nodeApp, repository } from '../../harness/repository.ts'

let given: ServerWithProject
let params: { project_id: string; app_id: string }
beforeAll(async () => {
  given = await serverWithProject()
  await given.deploy('a')
  params = { project_id: given.projectId, app_id: (await given.appNamed('a')).id }
})
afterAll(() => given?.[Symbol.asyncDispose]())

type Overlap = 'forbid' | 'allow' | 'replace'

const create = (name: string, command: string[], overlap: Overlap = 'forbid') =>
  given.client.schedules.create({ params, body: { name, schedule: '5 4 1 1 *', command, overlap } })
/** Makes a time of the schedule due now. */
const come = (id: string) =>
  given.server.database.query(
    `update schedules set next_at = date_trunc('milliseconds', clock_timestamp()) where id = $1`,
    [id],
  )
const runsOf = async (schedule_id: string) => (await given.client.runs.list({ params, query: { schedule_id } })).runs
const statuses = async (id: string) => (await runsOf(id)).map(({ status }) => status)

describe('a schedule', () => {
  it('runs its command once at each time, and keeps its output', async () => {
    const { id, next_at } = await create('report', [
      'node',
      '-e',
      'console.log("said", process.argv[1]); console.error("too")',
      'this',
    ])
    await come(id)
    await expect.poll(() => statuses(id)).toEqual(['succeeded'])
    const [run] = await runsOf(id)
    expect(run).toMatchObject({ schedule_id: id, exit_code: 0, terminal: false })
    const { output } = await given.client.runs.get({ params: { ...params, id: run?.id ?? '' } })
    expect(output?.split('\n').sort()).toEqual(['', 'said this', 'too'])
    // The next time is after now, however many were missed.
    expect((await given.client.schedules.get({ params: { ...params, id } })).next_at).toBe(next_at)
  })

  it('announces that its command failed', async () => {
    await using endpoint = await testEndpoint(takes)
    await given.client.webhooks.create({ body: { url: endpoint.url, events: ['schedule.failed'] } })
    const { id } = await create('broken', ['node', '-e', 'process.exit(4)'])
    await come(id)
    await endpoint.waitFor(1)
    const [run] = await runsOf(id)
    expect(run).toMatchObject({ status: 'failed', exit_code: 4, problem: null })
    expect(JSON.parse(endpoint.requests[0]?.body ?? '')).toMatchObject({
      event: 'schedule.failed',
      data: {
        schedule_id: id,
        run_id: run?.id,
        name: 'broken',
        exit_code: 4,
        failure: { message: 'It ended with the status 4.' },
      },
    })
  })

  it.each([
    ['forbid', ['skipped', 'running']],
    ['allow', ['running', 'running']],
    ['replace', ['running', 'canceled']],
  ] as const)('follows its setting for a command that still runs: %s', async (overlap, expected) => {
    const { id } = await create(`long-${overlap}`, ['node', '-e', 'setInterval(() => 0, 1000)'], overlap)
    await come(id)
    await expect.poll(() => statuses(id)).toEqual(['running'])
    await come(id)
    await expect.poll(() => statuses(id)).toEqual(expected)
  })

  it('keeps its runs after its deletion', async () => {
    const { id } = await create('gone', ['true'])
    await come(id)
    await expect.poll(() => statuses(id)).toEqual(['succeeded'])
    await given.client.schedules.delete({ params: { ...params, id } })
    expect(await statuses(id)).toEqual(['succeeded'])
  })

  it('of fairlead.json appears, changes and disappears with the serving release', async () => {
    const entry = { name: 'from-file', schedule: '1 2 3 4 *', timezone: 'Europe/Berlin', command: ['true'] }
    const deploy = async (cron: object[]) => {
      await using source = await repository({ ...nodeApp('here'), 'fairlead.json': JSON.stringify({ cron }) })
      return await given.deploy('filed', source.url)
    }
    const first = await deploy([entry, { ...entry, name: 'other', overlap: 'allow' }])
    const at = { project_id: given.projectId, app_id: (await given.appNamed('filed')).id }
    const schedules = async () =>
      Object.fromEntries((await given.client.schedules.list({ params: at })).schedules.map((each) => [each.name, each]))
    await given.client.schedules.create({ params: at, body: { name: 'own', schedule: '5 4 1 1 *', command: ['true'] } })
    const before = await schedules()
    expect(before).toMatchObject({
      'from-file': { ...entry, overlap: 'forbid', from_file: true },
      other: { overlap: 'allow' },
    })
    await deploy([{ ...entry, schedule: '2 2 3 4 *' }])
    const after = await schedules()
    expect(Object.keys(after).sort()).toEqual(['from-file', 'own'])
    expect(after['from-file']).toMatchObject({ id: before['from-file']?.id, schedule: '2 2 3 4 *' })
    await given.client.deployments.rollback(given.paramsOf(first.id))
    await given.end(first.id)
    expect(Object.keys(await schedules()).sort()).toEqual(['from-file', 'other', 'own'])
  })
})
