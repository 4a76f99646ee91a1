import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Client } from '../../../server/src/contract/client.ts'
import { hangingBuild, settled } from '../../harness/deployments.ts'
import { type Repository, repository } from '../../harness/repository.ts'
import type { SignedInBrowser } from '../../harness/server.ts'
import { type ServerWithVariables, seenBy, serverWithVariables } from '../../harness/variables.ts'

/*
 * A thief has a key with the permission to deploy, and a repository that prints its variables. The owner deploys
 * another repository, and has given its app secret variables.
 */

let given: ServerWithVariables
let own: Repository
let owner: SignedInBrowser
let thief: Client
beforeAll(async () => {
  given = await serverWithVariables()
  own = await repository({
    'package.json': JSON.stringify({ scripts: { start: 'node server.js' } }),
    'server.js': `require('node:http')
  .createServer((request, response) => response.end(JSON.stringify(process.env)))
  .listen(process.env.PORT)`,
  })
  await given.source.git('checkout', '--quiet', '-b', 'hangs')
  await given.source.commit(hangingBuild)
  await given.source.git('checkout', '--quiet', 'main')
  owner = await given.server.signIn()
  thief = given.server.clientFor(await given.server.key({ preset: 'deploy' }))
})
afterAll(async () => {
  await given?.[Symbol.asyncDispose]()
  await own?.[Symbol.asyncDispose]()
})

type App = Awaited<ReturnType<ServerWithVariables['app']>>
const inProject = () => ({ project_id: given.projectId })
const withSecret = async (name: string): Promise<App> => {
  const app = await given.app(name)
  await owner.client.variables.update({ params: app.params, body: { set: { OWN_SECRET: `of ${name}` } } })
  return app
}
const steal = (name: string, more = {}) =>
  thief.deployments.create({ params: inProject(), body: { name, git_url: own.url, ...more } })
const staysWith = (url: string, field = 'git_url') => ({
  code: 'invalid_request',
  details: { field },
  message: expect.stringContaining(`stay with ${url}`),
})
const change = (verb: 'cancel' | 'rollback', id: string) => thief.deployments[verb]({ params: { ...inProject(), id } })
const idOf = async (app: App) => (await thief.apps.get({ params: { ...inProject(), id: app.id } })).latest.id

describe('secret variables and a key that may deploy', () => {
  it('reach no other repository, whatever the deployment’s name and variables', async () => {
    await withSecret('web')
    const stays = staysWith(given.source.url)
    await expect(steal('web')).rejects.toMatchObject(stays)
    await expect(steal('web', { env_vars: { OWN_SECRET: 'mine' } })).rejects.toMatchObject(stays)
    await expect(steal('web', { env_vars: { OWN_A: 'a' }, env_vars_for: 'app' })).rejects.toMatchObject(stays)
    const promoted = await settled(thief, given.projectId, (await steal('stolen')).id)
    const body = { name: 'web', from_deployment_id: promoted.id }
    await expect(thief.deployments.create({ params: inProject(), body })).rejects.toMatchObject(
      staysWith(given.source.url),
    )
    // The key deploys the owner's repository as before.
    const mine = await thief.deployments.create({
      params: inProject(),
      body: { name: 'web', git_url: given.source.url },
    })
    expect(await given.end(mine.id)).toMatchObject({ status: 'running' })
    expect(await seenBy(await given.appNamed('web'))).toMatchObject({ OWN_SECRET: 'of web' })
  })

  it('are not copied to an app of another repository during a build of the owner’s', async () => {
    const from = await withSecret('from')
    const trap = await settled(thief, given.projectId, (await steal('trap')).id)
    const app = await given.appNamed('trap')
    const deploySource = (more = {}) =>
      thief.deployments.create({ params: inProject(), body: { name: 'trap', git_url: given.source.url, ...more } })
    const building = await deploySource({ branch: 'hangs' })
    const copy = thief.variables.copy({ params: app.params, body: { from: from.id } })
    await expect(copy).rejects.toMatchObject({ details: { field: 'from' } })
    // Nor do they leave an app that received them in between and is rolled back.
    await change('cancel', building.id)
    await given.end((await deploySource()).id)
    await thief.variables.copy({ params: app.params, body: { from: from.id } })
    await change('rollback', trap.id)
    await given.end(trap.id)
    await expect(thief.apps.apply({ params: { ...inProject(), id: app.id }, body: {} })).rejects.toMatchObject(
      staysWith(given.source.url),
    )
    await expect(steal('trap')).rejects.toMatchObject(staysWith(given.source.url))
    expect(await seenBy(app)).toEqual({})
  })

  it('of a deployment belong to its repository, even after an attempt with another', async () => {
    const first = await given.deploy('given', { env_vars: { OWN_GIVEN: 'secret' } })
    const app = await given.appNamed('given')
    await own.commit(hangingBuild)
    const tried = await steal('given')
    await expect(steal('given', { keep_env_vars: ['OWN_GIVEN'] })).rejects.toMatchObject({ code: 'invalid_request' })
    await change('cancel', tried.id)
    await thief.variables.adopt({ params: app.params })
    await expect(steal('given')).rejects.toMatchObject(staysWith(given.source.url))
    await own.git('revert', '--no-edit', 'HEAD')
    expect(await idOf(app)).toBe(tried.id)
    expect(await thief.deployments.get({ params: { ...inProject(), id: first.id } })).toMatchObject({
      status: 'running',
    })
  })

  it('that are set while a key deploys another repository belong to the serving repository', async () => {
    const app = await given.app('meanwhile')
    await own.commit(hangingBuild)
    const tried = await steal('meanwhile')
    await owner.client.variables.update({ params: app.params, body: { set: { OWN_SECRET: 'new' } } })
    await own.git('revert', '--no-edit', 'HEAD')
    await change('cancel', tried.id)
    await expect(steal('meanwhile')).rejects.toMatchObject(staysWith(given.source.url))
  })

  it('with a linked database stay, too', async () => {
    await given.linkedApp('linked')
    await expect(steal('linked')).rejects.toMatchObject(staysWith(given.source.url))
  })

  it('disappear with their app', async () => {
    const app = await withSecret('anew')
    await thief.apps.delete({ params: { ...inProject(), id: app.id } })
    await settled(thief, given.projectId, (await steal('anew')).id)
    expect(await seenBy(await given.appNamed('anew'))).toEqual({})
  })

  it('move with a signed-in user’s deployment, and stay there', async () => {
    const app = await withSecret('moved')
    const body = { name: 'moved', git_url: own.url }
    const moved = await owner.client.deployments.create({ params: inProject(), body })
    expect(await given.end(moved.id)).toMatchObject({ status: 'running' })
    expect(await seenBy(app)).toEqual({ OWN_SECRET: 'of moved' })
    const back = thief.deployments.create({ params: inProject(), body: { ...body, git_url: given.source.url } })
    await expect(back).rejects.toMatchObject(staysWith(own.url))
    expect(await settled(thief, given.projectId, (await steal('moved')).id)).toMatchObject({ status: 'running' })
  })

  it('of no known source belong to what serves', async () => {
    const { id } = await withSecret('older')
    await given.server.database.query('update app_variables set source = null where app_id = $1', [id])
    await expect(steal('older')).rejects.toMatchObject(staysWith(given.source.url))
    await thief.deployments.create({ params: inProject(), body: { name: 'older', git_url: given.source.url } })
    await expect(steal('older')).rejects.toMatchObject(staysWith(given.source.url))
  })

  it('are read by no command: that needs a separate permission', async () => {
    const { params } = await given.appNamed('web')
    const lacks = { code: 'forbidden', details: { scope: 'runs:write' } }
    const command = ['env']
    await expect(thief.runs.create({ params, body: { command } })).rejects.toMatchObject(lacks)
    const body = { name: 'n', schedule: '* * * * *', timezone: 'UTC', command }
    await expect(thief.schedules.create({ params, body })).rejects.toMatchObject(lacks)
    expect((await thief.runs.list({ params })).runs).toEqual([])
  })
})
