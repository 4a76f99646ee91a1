import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectNotFound } from '../../harness/conformance.ts'
import { deployAndSettle, hangingBuild, hangingStart } from '../../harness/deployments.ts'
import { testReceiver } from '../../harness/receiver.ts'
import { releasesOnDisk } from '../../harness/releases.ts'
import { nodeApp, repository } from '../../harness/repository.ts'
import { type TestServer, testServer } from '../../harness/server.ts'

let server: TestServer
let projectId: string
beforeAll(async () => {
  server = await testServer()
  projectId = (await server.client.projects.create({ body: { name: 'p', plan: 'enterprise' } })).id
})
afterAll(() => server[Symbol.asyncDispose]())

const create = (name: string, git_url: string) =>
  server.client.deployments.create({ params: { project_id: projectId }, body: { name, git_url } })
const cancel = (id: string) => server.client.deployments.cancel({ params: { project_id: projectId, id } })
const log = (id: string) =>
  server.client.deployments.logs({ params: { project_id: projectId, id } }).then((response) => response.text())
const get = (id: string) => server.client.deployments.get({ params: { project_id: projectId, id } })

/** Cancels; checks that the API shows it at once, and that the files are removed. */
async function cancelAndCheck(id: string): Promise<void> {
  expect(await cancel(id)).toMatchObject({ id, status: 'canceled', failure: null })
  await expect
    .poll(async () => (await releasesOnDisk(server.dataDirectory)).filter((path) => path.endsWith(id)))
    .toEqual([])
  expect(await get(id)).toMatchObject({ status: 'canceled', finished_at: expect.any(String) })
}

describe('POST /projects/:project_id/deployments/:id/cancel', () => {
  it('ends a fetch from a repository that never answers', async () => {
    const silent = createServer(() => undefined).listen(0, '127.0.0.1')
    await once(silent, 'listening')
    const asked = once(silent, 'request')
    const { id } = await create('fetch', `http://127.0.0.1:${(silent.address() as AddressInfo).port}/a.git`)
    await asked
    await cancelAndCheck(id)
    silent.closeAllConnections()
    silent.close()
  })

  it('ends a build and a queued build, and the next build gets the slot', async () => {
    await using source = await repository(hangingBuild)
    const first = await create('build', source.url)
    await expect.poll(() => log(first.id), { timeout: 60_000 }).toContain('building')
    const waiting = await create('waits', source.url)
    await expect
      .poll(() => releasesOnDisk(server.dataDirectory), { timeout: 60_000 })
      .toContainEqual(expect.stringContaining(waiting.id))
    await cancelAndCheck(waiting.id)
    const next = await create('next', source.url)
    await cancelAndCheck(first.id)
    await expect.poll(() => log(next.id), { timeout: 60_000 }).toContain('building')
    await cancelAndCheck(next.id)
  })

  it('ends an app that starts and ignores SIGTERM', async () => {
    await using source = await repository(hangingStart)
    const { id } = await create('start', source.url)
    await expect.poll(() => log(id), { timeout: 60_000 }).toContain('starting')
    await cancelAndCheck(id)
  })

  it('removes a deployment from the queue before its job begins, and leaves the running release unchanged', async () => {
    await using good = await repository(nodeApp('steady'))
    await using source = await repository(hangingStart)
    const running = await deployAndSettle(server.client, projectId, { name: 'queue', git_url: good.url })
    const first = await create('queue', source.url)
    await expect.poll(() => log(first.id), { timeout: 60_000 }).toContain('starting')
    const second = await create('queue', source.url)
    expect((await get(second.id)).started_at).toBeNull()
    await cancelAndCheck(second.id)
    await cancelAndCheck(first.id)
    expect(await (await fetch(running.url)).text()).toBe('steady')
    expect((await get(running.id)).status).toBe('running')
  })

  it('has one effect and one event when it is sent several times at once', async () => {
    await using receiver = await testReceiver()
    const hook = await server.client.webhooks.create({ body: { url: receiver.url, project_id: projectId } })
    receiver.trust(hook.secret)
    await using source = await repository(hangingStart)
    const { id, url } = await create('twice', source.url)
    const answers = await Promise.all([cancel(id), cancel(id), cancel(id)])
    expect(answers.map(({ status }) => status)).toEqual(['canceled', 'canceled', 'canceled'])
    await cancelAndCheck(id)
    const event = await receiver.waitFor(({ data }) => data.deployment_id === id)
    expect(event).toMatchObject({ event: 'deployment.canceled', data: { project_id: projectId, url } })
    const [row] = await server.database.query<{ count: string }>('select count(*) from events where body like $1', [
      `%${id}%`,
    ])
    expect(row?.count).toBe('1')
    await server.client.webhooks.delete({ params: { id: hook.id } })
  })

  it('refuses a running deployment and names the right action', async () => {
    await using source = await repository(nodeApp('on'))
    const { id } = await deployAndSettle(server.client, projectId, { name: 'on', git_url: source.url })
    await expect(cancel(id)).rejects.toMatchObject({
      code: 'invalid_request',
      message: 'This deployment is running and cannot be canceled. Stop it instead.',
      details: { status: 'running' },
    })
  })

  it('answers the same 404 as for an id that never existed', async () => {
    const body = { name: 'mine', git_url: 'https://127.0.0.1:1/a.git' }
    const { id } = await server.client.deployments.create({ params: { project_id: projectId }, body })
    await expectNotFound(server, 'deployments.cancel', { project_id: projectId, id })
  })
})
