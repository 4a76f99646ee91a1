import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type ContainerAnswer, pushShop, startAsking } from '../../../harness/container-app.ts'
import { deployAndSettle } from '../../../harness/deployments.ts'
import { noDocker, startDockerd, type TestDockerd } from '../../../harness/docker.ts'
import { skipped } from '../../../harness/ordinary-user.ts'
import { ownServerWithProject, type ServerWithProject } from '../../../harness/project.ts'
import { noRegistry, startRegistry, type TestRegistry } from '../../../harness/registry.ts'
import { startRun } from '../../../harness/runs.ts'
import { temporaryDirectory } from '../../../harness/temporary.ts'

const why = (await noDocker()) ?? (await noRegistry())
if (why !== null) skipped('apps in containers', why)

describe.skipIf(why !== null)('an app of an image', () => {
  const stack = new AsyncDisposableStack()
  let dockerd: TestDockerd
  let registry: TestRegistry
  let given: ServerWithProject

  beforeAll(async () => {
    dockerd = stack.use(await startDockerd({ liveRestore: true }))
    registry = stack.use(await startRegistry())
    await pushShop(dockerd, registry)
    given = stack.use(
      await ownServerWithProject({ DOCKER_HOST: dockerd.host, FAIRLEAD_CONTAINER_NETWORK: '10.208.0.0/12' }),
    )
  }, 180_000)
  afterAll(() => stack.disposeAsync(), 120_000)

  const release = (tag: number, more = {}) =>
    deployAndSettle(given.client, given.projectId, { name: 'shop', image: `${registry.host}/shop:${tag}`, ...more })
  const answer = async (url: string) => (await (await fetch(url)).json()) as ContainerAnswer
  const containers = () =>
    dockerd.engine.call<{ Id: string; State: string }[]>({
      method: 'GET',
      path: ['containers', 'json'],
      query: { all: true },
    })
  const images = () => dockerd.engine.call<unknown[]>({ method: 'GET', path: ['images', 'json'] })
  const answering = (url: string, count: number) =>
    expect
      .poll(
        async () =>
          new Set((await Promise.all(Array.from({ length: 12 }, () => answer(url)))).map(({ host }) => host)).size,
        {
          timeout: 60_000,
        },
      )
      .toBe(count)

  it('is deployed, scaled, rolled back by digest, and deleted with all of its containers and images', async () => {
    const first = await release(1, { env_vars: { GREETING: 'hello' }, env_vars_for: 'app' })
    expect(first).toMatchObject({ status: 'running', failure: null })
    expect(await answer(first.url)).toMatchObject({ release: 1, greeting: 'hello' })
    const { id: appId } = await given.appNamed('shop')
    const params = { project_id: given.projectId, app_id: appId }

    await given.client.processes.update({ params, body: { processes: { web: { instances: 3 } } } })
    await answering(first.url, 3)

    const run = await startRun(given, appId, ['node', '-e', 'console.log(process.env.GREETING); process.exit(3)'])
    expect(await run.ended).toMatchObject({ code: 3 })
    expect(run.printed.output).toContain('hello')

    const second = await release(2)
    expect(second).toMatchObject({ status: 'running', failure: null })
    await answering(first.url, 3)
    expect(await answer(first.url)).toMatchObject({ release: 2, greeting: 'hello' })

    await given.client.deployments.rollback(given.paramsOf(first.id))
    expect(await given.end(first.id)).toMatchObject({ status: 'running' })
    expect(await answer(first.url)).toMatchObject({ release: 1 })
    await expect.poll(async () => (await containers()).length, { timeout: 60_000 }).toBe(3)

    await given.client.apps.delete({ params: { project_id: given.projectId, id: appId } })
    await expect.poll(async () => [await containers(), await images()], { timeout: 60_000 }).toEqual([[], []])
  }, 240_000)

  it('keeps the files of its volumes over images, rollbacks, and a restored copy of the data directory', async () => {
    const volumes = { data: '/srv/data' }
    const first = await release(1, { name: 'keeping', volumes })
    expect(first).toMatchObject({ status: 'running', failure: null })
    const { id: appId } = await given.appNamed('keeping')
    const params = { project_id: given.projectId, app_id: appId }
    const run = async (body: string) => {
      const ran = await startRun(given, appId, ['node', '-e', `const fs = require('node:fs'); ${body}`])
      expect(await ran.ended).toMatchObject({ code: 0 })
      return ran.printed.output
    }
    const write =
      "fs.writeFileSync(process.env.FAIRLEAD_VOLUME_DATA + '/notes', 'of release one'); fs.chownSync('/srv/data/notes', 1234, 1235)"
    await run(write)
    const read =
      "const { uid, gid } = fs.statSync('/srv/data/notes'); console.log(fs.readFileSync('/srv/data/notes', 'utf8'), uid, gid)"
    expect(await release(2, { name: 'keeping' })).toMatchObject({ status: 'running', failure: null })
    expect(await run(read)).toContain('of release one 1234 1235')
    const list = () => given.client.volumes.list({ params })
    expect(await list()).toMatchObject({ volumes: [{ name: 'data', path: '/srv/data' }] })

    const { dataDirectory } = given.server
    await using copy = await temporaryDirectory()
    const tar = (...args: string[]) => promisify(execFile)('tar', ['--numeric-owner', ...args])
    await tar('-C', dataDirectory, '-czf', join(copy.path, 'backup.tar.gz'), 'apps')
    await run("fs.rmSync('/srv/data/notes')")
    await given.client.deployments.stop(given.paramsOf((await given.appNamed('keeping')).serving?.id ?? ''))
    await tar('-C', dataDirectory, '-xpzf', join(copy.path, 'backup.tar.gz'))
    await given.client.deployments.rollback(given.paramsOf(first.id))
    expect(await given.end(first.id)).toMatchObject({ status: 'running' })
    expect(await run(read)).toContain('of release one 1234 1235')

    expect(await release(2, { name: 'keeping', volumes: {} })).toMatchObject({ status: 'running' })
    expect(await list()).toMatchObject({ volumes: [{ name: 'data', path: null }] })
    expect(await given.client.volumes.update({ params, body: { delete: ['data'] } })).toMatchObject({ volumes: [] })
    await given.client.apps.delete({ params: { project_id: given.projectId, id: appId } })
    await expect.poll(async () => (await containers()).length, { timeout: 60_000 }).toBe(0)
  }, 240_000)

  it('answers every request over ten releases, a kill of its container and a kill of its engine', async () => {
    const { url } = await release(1)
    const asking = startAsking(url)
    for (let number = 2; number <= 11; number += 1) {
      const made = await release(1 + (number % 2))
      expect(made).toMatchObject({ status: 'running', failure: null })
      if (number === 6) {
        await dockerd.kill('SIGKILL')
        await dockerd.start()
      }
    }
    await asking.stop()
    expect(asking.failed).toEqual([])
    expect(asking.answered).toBeGreaterThan(100)

    await expect.poll(async () => (await containers()).length, { timeout: 60_000 }).toBe(1)
    const { host } = await answer(url)
    for (const { Id } of await containers()) {
      await dockerd.engine.call({ method: 'POST', path: ['containers', Id, 'kill'] })
    }
    const next = () =>
      answer(url).then(
        (found) => found.host,
        () => host,
      )
    await expect.poll(next, { timeout: 60_000 }).not.toBe(host)
    await expect.poll(async () => (await containers()).length, { timeout: 60_000 }).toBe(1)
  }, 240_000)
})
