import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { settled } from '../harness/deployments.ts'
import { type ServerWithProject, serverWithProject } from '../harness/project.ts'
import { repository } from '../harness/repository.ts'

/** An app that was built once: its response contains a text that only its build knows. */
const builtOnce = {
  'package.json': JSON.stringify({ scripts: { build: 'node build.js', start: 'node server.js' } }),
  'build.js': `const { writeFileSync } = require('node:fs')
writeFileSync('made.txt', String(Math.random()))`,
  'server.js': `const { readFileSync } = require('node:fs')
const made = readFileSync('made.txt', 'utf8')
require('node:http').createServer((request, response) => {
  response.end(JSON.stringify({ made, stage: process.env.STAGE ?? null, released: process.env.RELEASED ?? null }))
}).listen(process.env.PORT)`,
}

let given: ServerWithProject
let otherId: string
beforeAll(async () => {
  given = await serverWithProject()
  otherId = (await given.client.projects.create({ body: { name: 'production', plan: 'enterprise' } })).id
})
afterAll(() => given?.[Symbol.asyncDispose]())

const textOf = async (url: string) => JSON.parse(await (await fetch(url)).text())

describe('a deployment from another one', () => {
  it('releases the tested files in another app and project, without a build and with the target’s variables', async () => {
    await using source = await repository(builtOnce)
    const params = { project_id: given.projectId }
    const tested = await given.client.deployments.create({
      params,
      body: { name: 'staging', git_url: source.url, env_vars: { STAGE: 'staging' } },
    })
    const before = await given.end(tested.id)
    const { made } = await textOf(before.url)
    await source.commit({ 'server.js': 'process.exit(1)' })

    const inOther = { project_id: otherId }
    const body = { name: 'shop', from_deployment_id: tested.id, env_vars: { STAGE: 'production' } }
    const promoted = await given.client.deployments.create({ params: inOther, body })
    const paramsOf = { params: { ...inOther, id: promoted.id } }
    expect(await settled(given.client, otherId, promoted.id)).toMatchObject({ status: 'running', failure: null })
    const after = await given.client.deployments.get(paramsOf)
    expect(after).toMatchObject({
      from_deployment_id: tested.id,
      git_url: source.url,
      commit: before.commit,
      branch: 'main',
    })
    // The last step may be written a moment later. Builds of other tests may hold the build slot.
    const steps = async () => {
      const [queued, ...others] = (await given.client.deployments.get(paramsOf)).steps.map(({ name }) => name)
      return [queued, ...others.filter((name) => name !== 'queued')]
    }
    await expect.poll(steps).toEqual(['queued', 'copy', 'build', 'start', 'check', 'switch'])
    expect(await textOf(after.url)).toMatchObject({ made, stage: 'production' })
    expect(await textOf(before.url)).toMatchObject({ made, stage: 'staging' })
    const log = await (await given.client.deployments.logs(paramsOf)).text()
    expect(log).toContain(`The files come from ${tested.id}, without another build.`)
    expect(log).not.toContain('node build.js')

    // From now on the deployment does not need its source.
    await given.client.deployments.stop(given.paramsOf(tested.id))
    await given.client.deployments.delete(given.paramsOf(tested.id))
    await given.client.deployments.restart(paramsOf)
    await expect.poll(async () => (await given.client.deployments.get(paramsOf)).status).toBe('running')
    expect(await textOf(after.url)).toMatchObject({ made, stage: 'production' })
  })

  it('runs the release command of the app, with the variables of the new deployment', async () => {
    await using source = await repository({
      ...builtOnce,
      Procfile: 'web: node server.js\nrelease: node release.js',
      'release.js': "console.log('migrates ' + process.env.STAGE)",
    })
    const { id } = await given.deploy('with-release', source.url)
    const params = { project_id: otherId }
    const body = { name: 'released', from_deployment_id: id, env_vars: { STAGE: 'production-database' } }
    const promoted = await given.client.deployments.create({ params, body })
    const paramsOf = { params: { ...params, id: promoted.id } }
    expect(await settled(given.client, otherId, promoted.id)).toMatchObject({ status: 'running', failure: null })
    expect(await (await given.client.deployments.logs(paramsOf)).text()).toContain('migrates ***')
  })

  it('is refused for a release that is deleted, or in a project that the key may not use', async () => {
    const failed = await given.deploy('failed', 'https://127.0.0.1:1/a.git')
    const create = (client: typeof given.client, from_deployment_id: string, more: object = {}) =>
      client.deployments.create({
        params: { project_id: otherId },
        body: { name: 'none', from_deployment_id, ...more },
      })
    const refused = (field: string, message: string) => ({
      code: 'invalid_request',
      details: { field, errors: [expect.objectContaining({ message: expect.stringContaining(message) })] },
    })
    const field = 'from_deployment_id'
    await expect(create(given.client, failed.id)).rejects.toMatchObject(refused(field, 'deploy its commit'))
    await expect(create(given.client, 'dep_none')).rejects.toMatchObject(refused(field, 'names no deployment'))
    const { id } = await given.deploy('bound')
    const key = await given.server.key({ projectIds: [otherId] })
    await expect(create(given.server.clientFor(key), id)).rejects.toMatchObject(refused(field, 'names no deployment'))
    await expect(create(given.client, id, { root: 'a' })).rejects.toMatchObject(refused('root', 'comes from'))
    await expect(create(given.client, id, { branch: 'a' })).rejects.toMatchObject(
      refused('branch', 'only with git_url'),
    )
    const both = create(given.client, id, { git_url: given.source.url })
    await expect(both).rejects.toMatchObject(refused(field, 'together with git_url'))
  })
})
