import { afterAll, beforeAll, expect, it } from 'vitest'
import { startLoad } from '../../harness/load.ts'
import { type ServerWithProject, serverWithProject } from '../../harness/project.ts'
import { instancesAt, replicatedApp, replicatedRelease } from '../../harness/replicas.ts'

let given: ServerWithProject
beforeAll(async () => {
  given = await serverWithProject()
})
afterAll(() => given?.[Symbol.asyncDispose]())

const long = { timeout: 180_000 }
const soon = { timeout: 60_000, interval: 100 }
/** For checks that the server makes from time to time. */
const patient = { timeout: 90_000, interval: 500 }

async function deployed(name: string) {
  const source = await replicatedApp()
  const deployment = await given.deploy(name, source.url)
  if (deployment.status !== 'running') throw new Error(`it is ${deployment.status}: ${deployment.failure?.message}`)
  const { id: app_id } = await given.appNamed(name)
  const params = { project_id: given.projectId, app_id }
  const read = () => given.client.processes.list({ params })
  const scale = (numbers: Record<string, number | null>) =>
    given.client.processes.update({
      params,
      body: {
        processes: Object.fromEntries(Object.entries(numbers).map(([type, instances]) => [type, { instances }])),
      },
    })
  const running = async (type: string) => {
    const { processes } = await read()
    const found = processes.find((process) => process.type === type)
    return (found?.running ?? []).filter(({ state }) => state === 'running').map((each) => each.name)
  }
  const logOf = async (process: string) => {
    const log = await given.client.deployments.logs({ ...given.paramsOf(deployment.id), query: { process } })
    return (await log.text()).split('\n').slice(0, -1)
  }
  return { logOf, source, url: deployment.url, read, scale, running, deploy: () => given.deploy(name, source.url) }
}

it('loses no request while an app gets more and fewer instances, and a new release', long, async () => {
  const app = await deployed('scaled')
  await using load = startLoad({ url: app.url, release: 1 })
  await load.answeredBy(1)
  for (const count of [3, 1, 2]) {
    await app.scale({ web: count })
    await expect.poll(async () => (await instancesAt(app.url)).size, soon).toBe(count)
    await expect.poll(async () => (await app.running('web')).length, soon).toBe(count)
  }
  const before = await instancesAt(app.url)
  await app.source.commit(replicatedRelease(2))
  load.expect(2)
  expect((await app.deploy()).status).toBe('running')
  load.require(2)
  await load.answeredBy(2)
  const after = await instancesAt(app.url)
  expect(after.size).toBe(2)
  expect([...after].filter((each) => before.has(each))).toEqual([])
  const { failures, lostConnections, requests } = await load.stop()
  expect(failures).toEqual([])
  expect(lostConnections).toBe(0)
  expect(requests).toBeGreaterThan(100)
})

it('restarts an instance that ends by itself, while the others answer', long, async () => {
  const app = await deployed('crashes')
  await app.scale({ web: 2 })
  await expect.poll(async () => (await instancesAt(app.url)).size, soon).toBe(2)
  // Requests are distributed in turn, so one of them ends the first instance.
  for (let time = 0; time < 2; time += 1) {
    const before = await instancesAt(app.url)
    // The gateway does not retry a POST, so one instance ends.
    await fetch(`${app.url}/exit`, { method: 'POST' }).catch(() => undefined)
    const left = await instancesAt(app.url, 20)
    expect([...left].filter((each) => each.startsWith('status'))).toEqual([])
    await expect.poll(async () => (await instancesAt(app.url)).size, soon).toBe(2)
    const after = await instancesAt(app.url)
    expect([...after].filter((each) => before.has(each))).toHaveLength(1)
  }
})

it('keeps the workers while web ends, fails to start twice, and restarts', long, async () => {
  const app = await deployed('workers')
  await app.scale({ worker: 1 })
  await expect.poll(() => app.running('worker'), soon).toEqual(['worker.1'])
  const begun = ['working']
  await expect.poll(() => app.logOf('worker'), soon).toEqual(begun)
  await fetch(`${app.url}/fail-twice`, { method: 'POST' }).catch(() => undefined)
  // The third start succeeds, after pauses of some seconds.
  const failed = async () => (await app.logOf('web')).filter((line) => line === 'fails to start').length
  await expect.poll(failed, soon).toBe(2)
  await expect.poll(async () => (await fetch(app.url)).status, soon).toBe(200)
  expect(await app.logOf('worker')).toEqual(begun)
  expect((await app.read()).processes[1]?.running).toMatchObject([{ name: 'worker.1', restarts: 0 }])
})

it('has no more instances than a smaller plan allows, and more again with a larger plan', long, async () => {
  const app = await deployed('slow')
  await app.scale({ web: 2, worker: 1 })
  await expect.poll(async () => (await instancesAt(app.url)).size, soon).toBe(2)
  await expect.poll(() => app.running('worker'), soon).toEqual(['worker.1'])
  await given.client.projects.update({ params: { project_id: given.projectId }, body: { plan: 'free' } })
  await expect.poll(async () => (await app.running('web')).length, patient).toBe(1)
  await expect.poll(() => app.running('worker'), patient).toEqual([])
  expect((await app.read()).processes.map(({ instances }) => instances)).toEqual([1, 0])
  await given.client.projects.update({ params: { project_id: given.projectId }, body: { plan: 'enterprise' } })
  await expect.poll(async () => (await instancesAt(app.url)).size, patient).toBe(2)
})

it('runs other process types on request, and restarts them', long, async () => {
  const app = await deployed('works')
  const { processes } = await app.read()
  expect(processes).toMatchObject([
    { type: 'web', instances: 1, running: [{ name: 'web.1' }] },
    { type: 'worker', instances: 0, command: expect.stringContaining('node worker.js'), running: [] },
  ])
  await app.scale({ worker: 2 })
  await expect.poll(() => app.running('worker'), soon).toEqual(['worker.1', 'worker.2'])
  expect((await instancesAt(app.url)).size).toBe(1)
  await app.source.commit(
    replicatedRelease(2, {
      'fairlead.json': JSON.stringify({ processes: { web: { instances: 2 }, worker: { memory_mb: 128 } } }),
      'worker.js': 'setTimeout(() => process.exit(3), 1500)',
    }),
  )
  expect((await app.deploy()).status).toBe('running')
  expect((await instancesAt(app.url)).size).toBe(2)
  await expect
    .poll(async () => (await app.read()).processes[1]?.running.map(({ restarts }) => restarts > 0), soon)
    .toEqual([true, true])
  expect((await app.read()).processes[1]).toMatchObject({ instances: 2, asked: 2, memory_mb: 128 })
  await app.scale({ worker: 0 })
  await expect.poll(async () => (await app.read()).processes[1]?.running, soon).toEqual([])
  expect((await instancesAt(app.url)).size).toBe(2)
})
