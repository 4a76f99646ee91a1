import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type ServerWithProject, serverWithProject } from '../../harness/project.ts'
import { nodeApp, repository } from '../../harness/repository.ts'
import { startRun } from '../../harness/runs.ts'

let given: ServerWithProject
beforeAll(async () => {
  given = await serverWithProject()
})
afterAll(() => given?.[Symbol.asyncDispose]())

const waiting = ['node', '-e', 'console.log("up"); setInterval(() => 0, 1000)']

async function stopped(name: string) {
  const body = { name, git_url: given.source.url, env_vars: { GREETING: 'hello there' } }
  const { id } = await given.client.deployments.create({ params: { project_id: given.projectId }, body })
  await given.end(id)
  await given.client.deployments.stop(given.paramsOf(id))
  return { id, app: (await given.appNamed(name)).id }
}

describe('a command of a stopped app', () => {
  it('runs in the stopped release, with its files and variables, and leaves it stopped', async () => {
    const { id, app } = await stopped('plain')
    const code = 'console.log(process.env.GREETING, require("node:fs").existsSync("server.js")); process.exit(4)'
    const runs = await Promise.all([startRun(given, app, ['node', '-e', code]), startRun(given, app, ['true'])])
    expect((await Promise.all(runs.map(({ ended }) => ended))).map((end) => end?.code)).toEqual([4, 0])
    expect(runs[0]?.printed.output).toBe('hello there true\n')
    expect(await runs[0]?.read()).toMatchObject({ status: 'failed', exit_code: 4, deployment_id: id })
    expect(await given.client.deployments.get(given.paramsOf(id))).toMatchObject({ status: 'stopped' })
  })

  it('ends when its release starts again, which then serves', async () => {
    const { id, app } = await stopped('restarted')
    const run = await startRun(given, app, waiting)
    await expect.poll(() => run.printed.output).toBe('up\n')
    await given.client.deployments.restart(given.paramsOf(id))
    expect((await run.ended)?.problem).toBe('The stopped release that it ran in was started again, changed or removed.')
    expect(await run.read()).toMatchObject({ status: 'canceled', output: 'up\n' })
    const { status, url } = await given.end(id)
    expect(status).toBe('running')
    expect(await (await fetch(url)).text()).toBe('here')
  })

  it('ends when its client has gone', async () => {
    const { app } = await stopped('left')
    const run = await startRun(given, app, waiting)
    await expect.poll(() => run.printed.output).toBe('up\n')
    run.socket.terminate()
    await expect.poll(async () => (await run.read()).status).toBe('canceled')
  })

  it('is refused without a release, and for a static site', async () => {
    const nowhere = { name: 'never', git_url: given.source.url, branch: 'nowhere' }
    const { id: never } = await given.client.deployments.create({
      params: { project_id: given.projectId },
      body: nowhere,
    })
    expect((await given.end(never)).status).toBe('failed')
    const refused = await startRun(given, (await given.appNamed('never')).id, ['true'])
    expect((await refused.ended)?.problem).toContain('no release of it is kept')
    await using site = await repository({ 'index.html': 'hello' })
    const { id } = await given.deploy('site', site.url)
    await given.client.deployments.stop(given.paramsOf(id))
    const none = await startRun(given, (await given.appNamed('site')).id, ['true'])
    expect((await none.ended)?.problem).toContain('A static site runs no process')
  })

  it('is not begun by a schedule: a stopped app does nothing by itself', async () => {
    await using source = await repository(nodeApp('here'))
    const { id } = await given.deploy('quiet', source.url)
    const params = { project_id: given.projectId, app_id: (await given.appNamed('quiet')).id }
    const body = { name: 'often', schedule: '5 4 1 1 *', command: ['true'] }
    const schedule = await given.client.schedules.create({ params, body })
    await given.client.deployments.stop(given.paramsOf(id))
    await given.server.database.query(
      `update schedules set next_at = date_trunc('milliseconds', clock_timestamp()) where id = $1`,
      [schedule.id],
    )
    const statuses = async () =>
      (await given.client.runs.list({ params, query: { schedule_id: schedule.id } })).runs.map(({ status }) => status)
    await expect.poll(statuses).toEqual(['running'])
    // It waits for its app, which may be starting, until the app is deleted.
    await given.client.apps.delete({ params: { project_id: given.projectId, id: params.app_id } })
  })
})
