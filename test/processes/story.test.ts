import { join } from 'node:path'
import { expect, it } from 'vitest'
import { startConversation } from '../harness/conversation.ts'
import { processesOf, settled } from '../harness/deployments.ts'
import { startLoad } from '../harness/load.ts'
import { freePort } from '../harness/ports.ts'
import { fairlead, processesAround, serverProcess } from '../harness/process.ts'
import { testReceiver } from '../harness/receiver.ts'
import { releaseApp, untilAlone, webSocketLibrary } from '../harness/releases.ts'
import { repository } from '../harness/repository.ts'
import { temporaryDirectory } from '../harness/temporary.ts'

it('an app lives through a push, a second release, kill -9 of the server and a rollback without a failed request', {
  timeout: 600_000,
}, async () => {
  await using directory = await temporaryDirectory()
  const data = join(directory.path, 'data')
  const settings = { FAIRLEAD_PORT: String(await freePort()) }
  let server = await serverProcess(data, settings)
  await using _ = { [Symbol.asyncDispose]: async () => void (await server.stop()) }
  const key = (await fairlead(['keys', 'create', '--new', '--name', 'test', '--data-dir', data])).stdout.trim()
  const client = server.clientFor(key)
  const { id: project_id } = await client.projects.create({ body: { name: 'shop' } })
  const read = (id: string) => client.deployments.get({ params: { project_id, id } })

  await using receiver = await testReceiver()
  const hook = await client.webhooks.create({ body: { url: receiver.url } })
  receiver.trust(hook.secret)

  await using source = await repository(await webSocketLibrary())
  const push = async (release: number) => {
    const commit = await source.commit(releaseApp(release))
    const made = await client.deployments.create({
      params: { project_id },
      body: { name: 'web', git_url: source.url },
    })
    return { made, commit }
  }
  const succeeded = async (id: string) => {
    expect(await settled(client, project_id, id)).toMatchObject({ status: 'running', failure: null })
    return receiver.waitFor(({ data }) => data.deployment_id === id)
  }
  const releaseAt = async (url: string) => (await fetch(url)).headers.get('x-release')

  const first = await push(1)
  expect(first.made.status).toBe('building')
  expect(await succeeded(first.made.id)).toMatchObject({
    event: 'deployment.succeeded',
    data: { project_id, deployment_id: first.made.id },
  })
  const { url, commit } = await read(first.made.id)
  expect(commit).toBe(first.commit)
  expect(await releaseAt(url)).toBe('1')

  await using load = startLoad({ url, release: 1, pauseMs: 30 })
  await load.answeredBy(1)
  load.expect(2)
  const { made: second } = await push(2)
  await succeeded(second.id)
  load.require(2)
  await load.answeredBy(2)
  expect((await read(first.made.id)).status).toBe('superseded')
  await untilAlone(data, second.id)

  await using conversation = await startConversation(url)
  const processes = await processesOf(second.id)
  await server.kill()
  const without = load.report().requests
  await expect.poll(() => load.report().requests).toBeGreaterThan(without + 50)
  server = await serverProcess(data, settings)
  expect((await read(second.id)).status).toBe('running')
  await expect.poll(async () => (await fetch(`${server.url}/readyz`)).status).toBe(200)
  expect(await processesOf(second.id)).toEqual(processes)
  expect(await conversation.echo()).toBe(true)
  const { failures, lostConnections } = await load.stop()
  expect(failures).toEqual([])
  expect(lostConnections).toBe(0)
  await conversation.close()

  await client.deployments.rollback({ params: { project_id, id: first.made.id } })
  expect(await settled(client, project_id, first.made.id)).toMatchObject({ status: 'running' })
  expect(await releaseAt(url)).toBe('1')
  await expect.poll(async () => (await read(second.id)).status).toBe('superseded')

  expect(await server.stop()).toBe(0)
  expect(await processesAround(directory.path)).toEqual([])
})
