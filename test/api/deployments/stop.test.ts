import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectNotFound } from '../../harness/conformance.ts'
import { deployAndSettle, hangingBuild } from '../../harness/deployments.ts'
import { inTheMiddle } from '../../harness/in-the-middle.ts'
import { type ServerWithProject, serverWithProject } from '../../harness/project.ts'
import { repository } from '../../harness/repository.ts'
import { ownServer } from '../../harness/server.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

let given: ServerWithProject
beforeAll(async () => {
  given = await serverWithProject()
})
afterAll(() => given?.[Symbol.asyncDispose]())

describe('POST /projects/:project_id/deployments/:id/stop', () => {
  it('ends the app, and its address answers 503 until it is restarted', async () => {
    const { id, url } = await given.deploy('stops')
    expect(await given.client.deployments.stop(given.paramsOf(id))).toMatchObject({ status: 'stopped' })
    expect(await given.client.deployments.stop(given.paramsOf(id))).toMatchObject({ status: 'stopped' })
    await expect.poll(async () => (await fetch(url)).status).toBe(503)
    expect(await given.client.deployments.restart(given.paramsOf(id))).toMatchObject({ status: 'building' })
    expect(await given.end(id)).toMatchObject({ status: 'running', failure: null })
    expect(await (await fetch(url)).text()).toBe('here')
  })

  it('lets the app finish its requests', async () => {
    await using slow = await repository({
      'package.json': JSON.stringify({ scripts: { start: 'node server.js' } }),
      'server.js': `require('node:http').createServer((request, response) => {
  if (request.url !== '/slow') return response.end('quick')
  response.write('begun ')
  const timer = setInterval(() => {
    if (!require('node:fs').existsSync(process.env.GATE)) return
    response.end('ended')
    clearInterval(timer)
  }, 10)
}).listen(process.env.PORT)`,
    })
    await using folder = await temporaryDirectory()
    const gate = join(folder.path, 'gate')
    await using server = await ownServer({ FAIRLEAD_DRAIN_TIMEOUT: '60' })
    const { id: project_id } = await server.client.projects.create({ body: { name: 'p' } })
    const { id, url } = await deployAndSettle(server.client, project_id, {
      name: 'slow',
      git_url: slow.url,
      env_vars: { GATE: gate },
    })
    const answer = await fetch(`${url}/slow`)
    await server.client.deployments.stop({ params: { project_id, id } })
    await expect.poll(async () => (await fetch(url)).status).toBe(503)
    await writeFile(gate, '')
    expect(await answer.text()).toBe('begun ended')
  })

  it('waits for a change that is not committed yet, and acts on its result', async () => {
    await using hanging = await repository(hangingBuild)
    const { id } = await given.create('just', hanging.url)
    // Its job then writes nothing, so only the request waits for the lock.
    const step = async () => (await given.client.deployments.get(given.paramsOf(id))).steps.at(-1)?.name
    await expect.poll(step, { timeout: 60_000 }).toBe('build')
    const [stopped] = await inTheMiddle(
      given.server.database,
      (own) => own.query(`update deployments set status = 'running', retained = true where id = $1`, [id]),
      () => [given.client.deployments.stop(given.paramsOf(id))],
    )
    expect(stopped).toMatchObject({ status: 'stopped' })
  })

  it('refuses a deployment that is not running', async () => {
    await using hanging = await repository(hangingBuild)
    const { id } = await given.create('hangs', hanging.url)
    await expect(given.client.deployments.stop(given.paramsOf(id))).rejects.toMatchObject({
      code: 'invalid_request',
      message: 'This deployment is building and cannot be stopped. Cancel it instead.',
    })
    await given.client.deployments.cancel(given.paramsOf(id))
  })

  it('answers the same 404 as for an id that never existed', async () => {
    const { id } = await given.create('mine', 'https://127.0.0.1:1/a.git')
    await expectNotFound(given.server, 'deployments.stop', { project_id: given.projectId, id })
  })
})
