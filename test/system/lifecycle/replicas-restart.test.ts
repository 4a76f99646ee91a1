import { expect, it } from 'vitest'
import { deployAndSettle, processesOf } from '../../harness/deployments.ts'
import { freePort } from '../../harness/ports.ts'
import { instancesAt, replicatedApp } from '../../harness/replicas.ts'
import { serverProcesses } from '../../harness/server-processes.ts'

const soon = { timeout: 60_000, interval: 100 }

it('all instances of an app outlive a killed server, and the next server watches each', {
  timeout: 180_000,
}, async () => {
  await using servers = await serverProcesses({ FAIRLEAD_PORT: String(await freePort()) })
  await using source = await replicatedApp()
  const key = await servers.key()
  const first = await servers.start()
  const { id: project_id } = await first.clientFor(key).projects.create({ body: { name: 'p', plan: 'enterprise' } })
  const { id, url } = await deployAndSettle(first.clientFor(key), project_id, { name: 'app', git_url: source.url })
  const { apps } = await first.clientFor(key).apps.list({ params: { project_id } })
  const params = { project_id, app_id: apps[0]?.id ?? '' }
  const scale = (web: number, worker: number) => ({
    params,
    body: { processes: { web: { instances: web }, worker: { instances: worker } } },
  })
  await first.clientFor(key).processes.update(scale(3, 1))
  await expect.poll(async () => (await instancesAt(url)).size, soon).toBe(3)
  await expect
    .poll(async () => (await first.clientFor(key).processes.list({ params })).processes[1]?.running, soon)
    .toMatchObject([{ state: 'running' }])
  const before = await instancesAt(url)
  await first.kill()
  expect(await instancesAt(url)).toEqual(before)

  await using next = await servers.start()
  const client = next.clientFor(key)
  expect(await instancesAt(url)).toEqual(before)
  // An instance that ends is restarted, which shows that the next server watches it.
  await fetch(`${url}/exit`, { method: 'POST' }).catch(() => undefined)
  await expect.poll(async () => (await instancesAt(url)).size, soon).toBe(3)
  expect([...(await instancesAt(url))].filter((each) => before.has(each))).toHaveLength(2)
  const { processes } = await client.processes.list({ params })
  expect(processes[1]?.running).toMatchObject([{ name: 'worker.1', state: 'running', restarts: 0 }])
  await client.processes.update(scale(1, 0))
  await expect.poll(async () => (await instancesAt(url)).size, soon).toBe(1)
  await client.apps.delete({ params: { project_id, id: params.app_id } })
  await expect.poll(() => processesOf(id), soon).toEqual([])
})
