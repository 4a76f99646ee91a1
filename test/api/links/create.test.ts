import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectNotFound, succeed, withKey } from '../../harness/conformance.ts'
import { query, untilDatabase } from '../../harness/databases.ts'
import { repository } from '../../harness/repository.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'
import { type ServerWithVariables, serverWithVariables } from '../../harness/variables.ts'

let given: ServerWithVariables
beforeAll(async () => {
  given = await serverWithVariables()
})
afterAll(() => given?.[Symbol.asyncDispose]())

const caller = () => withKey(given.server, given.server.apiKey)
const inProject = () => ({ project_id: given.projectId })

/** Returns the variables of the serving release. */
const seenBy = async ({ url }: { readonly url: string }) => (await (await fetch(url)).json()) as Record<string, string>

describe('POST /projects/:project_id/links', () => {
  it('gives further releases the connection string, which follows a rotation of the password', async () => {
    const database = await given.client.databases.create({ params: inProject(), body: { name: 'orders' } })
    await untilDatabase(given.client, given.projectId, database.id)
    const app = await given.app('shop')
    const body = { app: app.id, database: database.id }
    const link = await succeed(caller(), 'links.create', inProject(), body)
    expect(link).toMatchObject({ app_name: 'shop', database_name: 'orders', variable: 'DATABASE_URL' })
    const { pending } = await given.client.variables.list({ params: app.params })
    expect(pending).toEqual({ added: ['DATABASE_URL'], changed: [], removed: [] })
    const first = await given.apply(app)
    expect((await seenBy(app))['DATABASE_URL']).toBe(database.connection_string)

    const rotated = await given.client.databases.rotatePassword({ params: { ...inProject(), id: database.id } })
    await expect
      .poll(async () => (await seenBy(app))['DATABASE_URL'], { timeout: 30_000 })
      .toBe(rotated.connection_string)
    expect(await query(rotated.connection_string, 'select 1')).toEqual([[1]])
    expect(await given.end(first.id)).toMatchObject({ status: 'running', latest_id: first.id })

    expect(await given.client.links.create({ params: inProject(), body })).toEqual(link)
    await given.client.links.delete({ params: { ...inProject(), id: link.id } })
    await given.apply(app)
    expect(await seenBy(app)).not.toHaveProperty('DATABASE_URL')
    await expectNotFound(given.server, 'links.create', inProject())
  })

  it('creates a link and its database in one step, under a chosen name', async () => {
    const app = await given.app('one-step')
    const create = (variable: string, named = app.id) =>
      given.client.databases.create({ params: inProject(), body: { name: 'd', link: { app: named, variable } } })
    const { connection_string } = await create('OWN_DATABASE')
    const { env_var_names } = await given.deploy('one-step')
    expect(env_var_names).toEqual(['OWN_DATABASE'])
    expect((await seenBy(app))['OWN_DATABASE']).toBe(connection_string)
    await expect(create('PORT')).rejects.toMatchObject({ details: { field: 'link.variable' } })
    const before = (await given.client.databases.list({ params: inProject() })).databases.length
    await expect(create('OWN_DATABASE')).rejects.toMatchObject({ details: { field: 'variable' } })
    await expect(create('OWN_OTHER', 'nonsense')).rejects.toMatchObject({ details: { field: 'app' } })
    await given.client.variables.update({ params: app.params, body: { set: { OWN_TAKEN: 'x' } } })
    await expect(create('OWN_TAKEN')).rejects.toMatchObject({ details: { field: 'variable' } })
    // A refused link leaves no database behind.
    expect((await given.client.databases.list({ params: inProject() })).databases).toHaveLength(before)
  })

  it('creates a link with the first deployment of an app, whose release has the variable', async () => {
    const { client } = given
    const database = await client.databases.create({ params: inProject(), body: { name: 'first' } })
    await untilDatabase(client, given.projectId, database.id)
    const made = await given.deploy('first', { databases: { OWN_DATABASE: database.id } })
    expect(made).toMatchObject({ status: 'running', env_var_names: ['OWN_DATABASE'] })
    expect((await seenBy(made))['OWN_DATABASE']).toBe(database.connection_string)
    const { links } = await client.links.list({ params: inProject() })
    expect(links[0]).toMatchObject({ app_name: 'first', database_id: database.id, variable: 'OWN_DATABASE' })
    // A repetition changes nothing; another database under the name is refused.
    expect(await given.deploy('first', { databases: { OWN_DATABASE: database.id } })).toMatchObject({
      status: 'running',
      env_var_names: ['OWN_DATABASE'],
    })
    expect((await client.links.list({ params: inProject() })).links).toEqual(links)
    const another = await client.databases.create({ params: inProject(), body: { name: 'another' } })
    await expect(given.deploy('first', { databases: { OWN_DATABASE: another.id } })).rejects.toMatchObject({
      details: { field: 'variable' },
      message: 'variable: has another link of the app',
    })
    const other = given.deploy('second', { databases: { OWN_DATABASE: 'nonsense' } })
    await expect(other).rejects.toMatchObject({ details: { field: 'database' } })
    await expect(given.appNamed('second')).rejects.toThrow('there is no app')
    const reserved = given.deploy('second', { databases: { PORT: database.id } })
    await expect(reserved).rejects.toMatchObject({ details: { field: 'databases.PORT' } })
  })

  it('gives a deployment that is built during a rotation the new password', async () => {
    await using directory = await temporaryDirectory()
    const mayEnd = join(directory.path, 'may-end')
    await writeFile(mayEnd, '')
    await using source = await repository({
      'package.json': JSON.stringify({ scripts: { build: 'node build.js', start: 'node server.js' } }),
      'build.js': `const { existsSync } = require('node:fs')
const wait = () => existsSync(${JSON.stringify(mayEnd)}) || setTimeout(wait, 20)
wait()`,
      'server.js': `const database = process.env.DATABASE_URL
if (database) console.log('the password is ' + new URL(database).password)
require('node:http')
  .createServer((request, response) => response.end(JSON.stringify({ database })))
  .listen(process.env.PORT)`,
    })
    const app = await given.app('builds', { git_url: source.url })
    const { id } = await given.client.databases.create({ params: inProject(), body: { name: 'd' } })
    await untilDatabase(given.client, given.projectId, id)
    await given.client.links.create({ params: inProject(), body: { app: app.id, database: id } })
    await rm(mayEnd)
    const building = await given.client.apps.apply({ params: { ...inProject(), id: app.id }, body: {} })
    const steps = async () => {
      const read = await given.client.deployments.get({ params: { ...inProject(), id: building.id } })
      return read.steps.map(({ name }) => name)
    }
    await expect.poll(steps, { timeout: 30_000 }).toContain('build')
    const { connection_string } = await given.client.databases.rotatePassword({ params: { ...inProject(), id } })
    await writeFile(mayEnd, '')
    expect(await given.end(building.id)).toMatchObject({ status: 'running' })
    await expect.poll(async () => (await seenBy(app))['database'], { timeout: 30_000 }).toBe(connection_string)
    const log = await given.client.deployments.logs({ params: { ...inProject(), id: building.id } })
    const lines = (await log.text()).split('\n').filter((line) => line.includes('the password is'))
    expect(lines.at(-1)).toContain('the password is ***')
  })

  it('reuses the name of a link whose database was deleted', async () => {
    const app = await given.app('moves')
    const created = async () => (await given.client.databases.create({ params: inProject(), body: { name: 'd' } })).id
    const link = (database: string) =>
      given.client.links.create({ params: inProject(), body: { app: app.id, database } })
    const [old, next] = [await created(), await created()]
    await link(old)
    await expect(link(next)).rejects.toMatchObject({ details: { field: 'variable' } })
    await given.client.databases.delete({ params: { ...inProject(), id: old } })
    expect(await link(next)).toMatchObject({ database_id: next, variable: 'DATABASE_URL' })
  })

  it('needs the permission to change databases, and a database of the project', async () => {
    const app = await given.app('guarded')
    const { id: project_id } = await given.client.projects.create({ body: { name: 'other' } })
    const other = await given.client.databases.create({ params: { project_id }, body: { name: 'd' } })
    const body = { app: app.id, database: other.id }
    const far = given.client.links.create({ params: inProject(), body })
    await expect(far).rejects.toMatchObject({ code: 'invalid_request', details: { field: 'database' } })
    const limited = given.server.clientFor(await given.server.key({ preset: 'deploy' }))
    const refused = limited.links.create({ params: inProject(), body })
    await expect(refused).rejects.toMatchObject({ code: 'forbidden', details: { scope: 'databases:write' } })
  })
})
