import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectNotFound } from '../../harness/conformance.ts'
import { deployAndSettle, hangingBuild } from '../../harness/deployments.ts'
import { ownServerWithProject, type ServerWithProject, serverWithProject } from '../../harness/project.ts'
import { repository } from '../../harness/repository.ts'
import { plansFile } from '../../harness/storage.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

let given: ServerWithProject
beforeAll(async () => {
  given = await serverWithProject()
})
afterAll(() => given?.[Symbol.asyncDispose]())

/** An app that answers at its first start, and never again. */
const startsOnce = {
  'package.json': JSON.stringify({ scripts: { start: 'node server.js' } }),
  'server.js': `const { existsSync, writeFileSync } = require('node:fs')
    const mark = 'started'
    if (existsSync(mark)) setInterval(() => {}, 1000)
    else require('node:http').createServer((_, response) => response.end('here')).listen(process.env.PORT)
    writeFileSync(mark, '')\n`,
}

/** An app that answers once the file exists that `GATE` names. */
const gated = {
  'package.json': JSON.stringify({ scripts: { start: 'node server.js' } }),
  'server.js': `const timer = setInterval(() => {
      if (!require('node:fs').existsSync(process.env.GATE)) return
      require('node:http').createServer((_, response) => response.end('here')).listen(process.env.PORT)
      clearInterval(timer)
    }, 10)\n`,
}

describe('POST /projects/:project_id/deployments/:id/restart', () => {
  it('refuses a release while another deployment of the app is building or running', async () => {
    const first = await given.deploy('busy')
    await using hanging = await repository(hangingBuild)
    const building = await given.create('busy', hanging.url)
    await expect(given.client.deployments.restart(given.paramsOf(first.id))).rejects.toMatchObject({
      code: 'invalid_request',
      message: expect.stringContaining(building.id),
    })
    await given.client.deployments.cancel(given.paramsOf(building.id))
    await given.deploy('busy')
    await expect(given.client.deployments.restart(given.paramsOf(first.id))).rejects.toMatchObject({
      code: 'invalid_request',
      message: expect.stringContaining('Roll back'),
    })
    expect((await given.client.deployments.get(given.paramsOf(first.id))).status).toBe('superseded')
  })

  it('with immediate further actions ends in the state that the last action requested', async () => {
    await using folder = await temporaryDirectory()
    const gate = join(folder.path, 'gate')
    await writeFile(gate, '')
    await using source = await repository(gated)
    const body = { name: 'hasty', git_url: source.url, env_vars: { GATE: gate } }
    const { id, url } = await deployAndSettle(given.client, given.projectId, body)
    // The first restart must not end before it is canceled.
    await rm(gate)
    await given.client.deployments.stop(given.paramsOf(id))
    await given.client.deployments.restart(given.paramsOf(id))
    await given.client.deployments.cancel(given.paramsOf(id))
    await writeFile(gate, '')
    await given.client.deployments.restart(given.paramsOf(id))
    expect((await given.end(id)).status).toBe('running')
    await given.client.deployments.stop(given.paramsOf(id))
    await expect.poll(() => fetch(url).then(({ status }) => status)).toBe(503)
    expect((await given.client.deployments.get(given.paramsOf(id))).status).toBe('stopped')
  })

  it('needs no build slot of the account', async () => {
    await using plans = await plansFile({ account: { building: 1 } })
    await using limited = await ownServerWithProject({ FAIRLEAD_PLANS_FILE: plans.path })
    await using once = await repository(startsOnce)
    await using hanging = await repository(hangingBuild)
    const { id } = await limited.deploy('once', once.url)
    const building = await limited.create('other', hanging.url)
    await limited.client.deployments.restart(limited.paramsOf(id))
    const refusal = { code: 'invalid_request', details: { limit: 'building', most: 1 } }
    await expect(limited.create('third', hanging.url)).rejects.toMatchObject(refusal)
    await limited.client.deployments.cancel(limited.paramsOf(building.id))
    expect((await limited.client.deployments.get(limited.paramsOf(id))).status).toBe('building')
    await expect(limited.create('third', hanging.url)).resolves.toMatchObject({ status: 'building' })
  })

  it('answers the same 404 as for an id that never existed', async () => {
    const { id } = await given.create('mine', 'https://127.0.0.1:1/a.git')
    await expectNotFound(given.server, 'deployments.restart', { project_id: given.projectId, id })
  })
})
