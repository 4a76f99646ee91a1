import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { expectNotFound, succeed, withKey } from '../../harness/conformance.ts'
import { deployAndSettle, hangingBuild } from '../../harness/deployments.ts'
import { followLog } from '../../harness/logs.ts'
import { nodeApp, repository } from '../../harness/repository.ts'
import { ownServer, type TestServer } from '../../harness/server.ts'

let server: TestServer
let project_id: string
beforeAll(async () => {
  server = await ownServer({ FAIRLEAD_BUILDS: '1' })
  project_id = (await server.client.projects.create({ body: { name: 'p', plan: 'enterprise' } })).id
})
afterAll(() => server[Symbol.asyncDispose]())

const get = (id: string) => succeed(withKey(server, server.apiKey), 'deployments.get', { project_id, id })

/** Waits until a deployment runs, and its last step is written, which may be a moment later. */
const switched = (id: string) =>
  vi.waitUntil(async () => {
    const read = await get(id)
    return read.status === 'running' && read.steps.at(-1)?.name === 'switch' && read
  }, 30_000)

const textOf = async (id: string) => (await server.client.deployments.logs({ params: { project_id, id } })).text()

const timestamp = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)

describe('GET /projects/:project_id/deployments/:id', () => {
  it('answers with its source and its times once it runs', async () => {
    await using source = await repository({})
    const commit = await source.commit(nodeApp('hello'))
    const { id } = await deployAndSettle(server.client, project_id, {
      name: 'web',
      git_url: source.url,
      env_vars: { SECRET: 'not shown' },
    })
    expect(await switched(id)).toEqual({
      id,
      latest_id: id,
      kept: true,
      env_var_names: ['SECRET'],
      name: 'web',
      status: 'running',
      url: expect.stringMatching(/^http:/),
      created_at: timestamp,
      project_id,
      app_id: expect.stringMatching(/^app_/),
      git_url: source.url,
      source_id: null,
      image: null,
      from_deployment_id: null,
      branch: 'main',
      commit,
      commit_message: expect.any(String),
      commit_author: expect.any(String),
      trigger: { kind: 'key', name: 'test', repository: null, run_url: null, actor: null, event: null },
      root: null,
      builds_before: null,
      failure: null,
      steps: ['queued', 'fetch', 'plan', 'build', 'start', 'check', 'switch'].map((name) => ({
        name,
        started_at: timestamp,
        finished_at: timestamp,
      })),
      started_at: timestamp,
      finished_at: timestamp,
    })
  })

  it('shows the times of its steps, each from the end of the previous step, and restarts them after a restart or rollback', async () => {
    await using source = await repository(nodeApp('steps'))
    const body = { name: 'steps', git_url: source.url }
    const { id } = await deployAndSettle(server.client, project_id, body)
    const { steps, created_at, finished_at } = await switched(id)
    expect(steps[0]?.started_at).toBe(created_at)
    for (const [index, step] of steps.entries())
      expect(step.finished_at).toBe(steps[index + 1]?.started_at ?? finished_at)

    const again = ['queued', 'start', 'check', 'switch']
    const asked = Date.now()
    await server.client.deployments.restart({ params: { project_id, id } })
    const restarted = await switched(id)
    expect(restarted.steps.map(({ name }) => name)).toEqual(again)
    expect(Date.parse(restarted.steps[0]?.started_at ?? '')).toBeGreaterThanOrEqual(asked - 1)

    await deployAndSettle(server.client, project_id, body)
    await server.client.deployments.rollback({ params: { project_id, id } })
    const back = await switched(id)
    expect(back.steps.map(({ name }) => name)).toEqual(again)
    expect((back.steps[0]?.started_at ?? '') > (restarted.steps[0]?.started_at ?? '')).toBe(true)
  })

  it('ends the step in which a deployment failed or was canceled', async () => {
    await using broken = await repository({ 'README.txt': 'nothing to run' })
    const failed = await deployAndSettle(server.client, project_id, { name: 'stepless', git_url: broken.url })
    const { steps, finished_at } = await get(failed.id)
    expect(steps.map(({ name }) => name)).toEqual(['queued', 'fetch', 'plan'])
    expect(steps.at(-1)?.finished_at).toBe(finished_at)

    await using hanging = await repository(hangingBuild)
    const body = { name: 'canceled', git_url: hanging.url }
    const { id } = await server.client.deployments.create({ params: { project_id }, body })
    await expect.poll(async () => (await get(id)).steps.at(-1)).toMatchObject({ name: 'build', finished_at: null })
    await server.client.deployments.cancel({ params: { project_id, id } })
    const canceled = await get(id)
    expect(canceled.steps.at(-1)).toMatchObject({ name: 'build', finished_at: canceled.finished_at })
  })

  it('answers with the stage, the code and the reason of a failure', async () => {
    await using source = await repository({ 'README.txt': 'nothing to run' })
    const { id } = await deployAndSettle(server.client, project_id, { name: 'broken', git_url: source.url })
    expect(await get(id)).toMatchObject({
      status: 'failed',
      failure: {
        stage: 'plan',
        code: 'not_recognised',
        message: expect.stringContaining('package.json'),
        suggestions: [],
      },
      started_at: timestamp,
      finished_at: timestamp,
    })
  })

  it('suggests the folders that hold apps; each can be given as root', async () => {
    const files = Object.entries(nodeApp('below')).map(([path, text]) => [`backend/${path}`, text])
    await using source = await repository({ 'README.txt': 'see backend', ...Object.fromEntries(files) })
    const body = { name: 'below', git_url: source.url }
    const first = await get((await deployAndSettle(server.client, project_id, body)).id)
    expect(first).toMatchObject({ failure: { suggestions: [{ root: 'backend', kind: 'node' }] } })
    const second = await deployAndSettle(server.client, project_id, { ...body, root: './backend/' })
    expect(await get(second.id)).toMatchObject({ status: 'running', root: 'backend', failure: null })
    expect(await (await fetch(second.url)).text()).toContain('below')
  })

  it('shows how many builds precede a waiting build', async () => {
    await using source = await repository(hangingBuild)
    const ids: string[] = []
    for (const name of ['first', 'second', 'third']) {
      const made = await server.client.deployments.create({
        params: { project_id },
        body: { name, git_url: source.url },
      })
      ids.push(made.id)
      await expect.poll(async () => (await textOf(made.id)).length).toBeGreaterThan(0)
    }
    const [first = '', second = '', third = ''] = ids
    expect(await get(first)).toMatchObject({ builds_before: null })
    await expect.poll(() => get(third)).toMatchObject({ builds_before: 2 })
    expect(await textOf(third)).toContain('Waiting for a build slot: 2 builds are ahead.')
    const stepNames = async () => (await get(third)).steps.map(({ name }) => name)
    await expect.poll(stepNames).toEqual(['queued', 'fetch', 'plan', 'queued'])
    // One app's builds are sequential, and the third build waits for two others.
    const body = { name: 'third', git_url: source.url }
    const { id: fourth } = await server.client.deployments.create({ params: { project_id }, body })
    expect(await get(fourth)).toMatchObject({ builds_before: 3, started_at: null })
    const log = await followLog(server.client, project_id, fourth)
    expect((await log.next()).data['text']).toBe('Waiting for a build slot: 3 builds are ahead.')
    log.close()
    await server.client.deployments.cancel({ params: { project_id, id: fourth } })
    await server.client.deployments.cancel({ params: { project_id, id: second } })
    await expect.poll(() => get(third)).toMatchObject({ builds_before: 1 })
    await server.client.deployments.cancel({ params: { project_id, id: first } })
    await expect.poll(() => get(third)).toMatchObject({ builds_before: null, status: 'building' })
    await expect.poll(stepNames).toEqual(['queued', 'fetch', 'plan', 'queued', 'build'])
    await server.client.deployments.cancel({ params: { project_id, id: third } })
  })

  it('answers the same 404 as for an id that never existed', async () => {
    const body = { name: 'mine', git_url: 'https://127.0.0.1:1/a.git' }
    const { id } = await server.client.deployments.create({ params: { project_id }, body })
    await expectNotFound(server, 'deployments.get', { project_id, id })
  })
})
