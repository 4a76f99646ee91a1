import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectNotFound, succeed, withKey } from '../../harness/conformance.ts'
import { deployAndSettle } from '../../harness/deployments.ts'
import { nodeApp, repository } from '../../harness/repository.ts'
import { type TestServer, testServer } from '../../harness/server.ts'

let server: TestServer
let project_id: string
beforeAll(async () => {
  server = await testServer()
  project_id = (await server.client.projects.create({ body: { name: 'p' } })).id
})
afterAll(() => server[Symbol.asyncDispose]())

const get = (id: string) => succeed(withKey(server, server.apiKey), 'deployments.get', { project_id, id })

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
    expect(await get(id)).toEqual({
      id,
      latest_id: id,
      env_var_names: ['SECRET'],
      name: 'web',
      status: 'running',
      url: expect.stringMatching(/^http:/),
      created_at: timestamp,
      project_id,
      git_url: source.url,
      branch: 'main',
      commit,
      failure: null,
      started_at: timestamp,
      finished_at: timestamp,
    })
  })

  it('answers with the stage, the code and the reason of a failure', async () => {
    await using source = await repository({ 'README.txt': 'nothing to run' })
    const { id } = await deployAndSettle(server.client, project_id, { name: 'broken', git_url: source.url })
    expect(await get(id)).toMatchObject({
      status: 'failed',
      failure: { stage: 'plan', code: 'not_recognised', message: expect.stringContaining('package.json') },
      started_at: timestamp,
      finished_at: timestamp,
    })
  })

  it('answers 404 with the body of an id that never existed', async () => {
    const body = { name: 'mine', git_url: 'https://127.0.0.1:1/a.git' }
    const { id } = await server.client.deployments.create({ params: { project_id }, body })
    await expectNotFound(server, 'deployments.get', { project_id, id })
  })
})
