import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { deployAndSettle } from '../../../harness/deployments.ts'
import {
  baseImage,
  changeImage,
  importBaseImage,
  noDocker,
  startDockerd,
  type TestDockerd,
} from '../../../harness/docker.ts'
import { skipped } from '../../../harness/ordinary-user.ts'
import { type OwnServerWithProject, ownServerWithProject } from '../../../harness/project.ts'
import { noRegistry, startRegistry, type TestRegistry } from '../../../harness/registry.ts'

const why = (await noDocker()) ?? (await noRegistry())
if (why !== null) skipped('the life of apps in containers', why)

/** Answers with its host name; its health check fails after a request for `/sick`. */
const app = `require('node:http').createServer((request, response) => {
  if (request.url === '/sick') require('node:fs').writeFileSync('/tmp/sick', '')
  response.end(require('node:os').hostname())
}).listen(process.env.PORT)
process.on('SIGTERM', () => process.exit(0))`
const changes = [
  'CMD ["node", "app.js"]',
  'HEALTHCHECK --interval=5s --retries=1 CMD ["sh", "-c", "test ! -e /tmp/sick"]',
]

describe.skipIf(why !== null)('an app in containers', () => {
  const stack = new AsyncDisposableStack()
  let dockerd: TestDockerd
  let registry: TestRegistry
  let given: OwnServerWithProject
  let id: string
  let url: string
  let params: { project_id: string; app_id: string }

  const answer = (): Promise<string> =>
    fetch(url).then(
      async (response) => (response.status === 200 ? response.text() : ''),
      () => '',
    )
  const containers = () =>
    dockerd.engine.call<{ Id: string }[]>({ method: 'GET', path: ['containers', 'json'], query: { all: true } })
  const images = () => dockerd.engine.call<unknown[]>({ method: 'GET', path: ['images', 'json'] })
  const within = { timeout: 60_000 }

  beforeAll(async () => {
    dockerd = stack.use(await startDockerd({ liveRestore: true }))
    registry = stack.use(await startRegistry())
    await importBaseImage(dockerd.engine, { 'app.js': app })
    await changeImage(dockerd.engine, 'fairlead-test/life:1', changes)
    await registry.push(dockerd.engine, 'fairlead-test/life:1', 'life:1')
    for (const name of ['fairlead-test/life:1', baseImage]) {
      await dockerd.engine.call({ method: 'DELETE', path: ['images', name] })
    }
    given = stack.use(await ownServerWithProject({ DOCKER_HOST: dockerd.host }))
    const image = `${registry.host}/life:1`
    const made = await deployAndSettle(given.client, given.projectId, { name: 'life', image })
    expect(made).toMatchObject({ status: 'running', failure: null })
    id = made.id
    url = made.url
    params = { project_id: given.projectId, app_id: (await given.appNamed('life')).id }
  }, 180_000)
  afterAll(() => stack.disposeAsync(), 120_000)

  it('runs its schedules in separate containers, which are removed afterwards', async () => {
    const command = ['node', '-e', 'console.log("said", require("node:os").hostname() !== "")']
    const body = { name: 'report', schedule: '5 4 1 1 *', command }
    const schedule = await given.client.schedules.create({ params, body })
    await given.server.database.query(
      "update schedules set next_at = date_trunc('milliseconds', clock_timestamp()) where id = $1",
      [schedule.id],
    )
    const runs = async () => (await given.client.runs.list({ params, query: { schedule_id: schedule.id } })).runs
    await expect.poll(async () => (await runs()).map(({ status }) => status), within).toEqual(['succeeded'])
    const { output } = await given.client.runs.get({ params: { ...params, id: (await runs())[0]?.id ?? '' } })
    expect(output).toBe('said true\n')
    await expect.poll(async () => (await containers()).length, within).toBe(1)
  }, 120_000)

  it('is measured', async () => {
    // A server measures all running instances once more at its end, and the next server starts the measurements again.
    await given.server.restart()
    await expect.poll(answer, within).not.toBe('')
    const { points } = await given.client.metrics.get({ params })
    const measured = points.findLast(({ memory_bytes }) => memory_bytes !== null)
    expect(measured).toMatchObject({ memory_limit_bytes: 4e9, cpu_limit: 4, instances: 1 })
    expect(measured?.memory_bytes).toBeGreaterThan(1e6)
    await expect.poll(async () => (await containers()).length, within).toBe(1)
  }, 120_000)

  it('whose HEALTHCHECK fails has its instance replaced, and says why in its log', async () => {
    await expect.poll(answer, within).not.toBe('')
    const before = await answer()
    await fetch(`${url}/sick`)
    await expect
      .poll(async () => {
        const now = await answer()
        return now !== '' && now !== before
      }, within)
      .toBe(true)
    const response = await given.client.deployments.logs({ params: { project_id: given.projectId, id } })
    expect(await response.text()).toContain('the HEALTHCHECK of its image fails')
    await expect.poll(async () => (await containers()).length, within).toBe(1)
  }, 120_000)

  it('whose engine is unavailable blocks no other app, and is removed when the engine is back', async () => {
    const other = await given.deploy('other')
    const { id: otherId } = await given.appNamed('other')
    await expect.poll(answer, within).not.toBe('')
    await dockerd.kill('SIGKILL')
    expect(await answer()).not.toBe('')
    await given.client.deployments.stop(given.paramsOf(other.id))
    await given.client.deployments.restart(given.paramsOf(other.id))
    expect(await given.end(other.id)).toMatchObject({ status: 'running' })
    await given.client.apps.delete({ params: { project_id: given.projectId, id: otherId } })
    const left = async () => readdir(join(given.server.dataDirectory, 'apps'))
    await expect.poll(left, within).not.toContain(otherId)

    await given.client.apps.delete({ params: { project_id: given.projectId, id: params.app_id } })
    await dockerd.start()
    // The sweep runs each minute, and at the start of a server.
    await given.server.restart()
    await expect.poll(async () => [await containers(), await images()], within).toEqual([[], []])
  }, 180_000)
})
