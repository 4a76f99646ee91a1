import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { deployAndSettle, settled } from '../harness/deployments.ts'
import { type Repository, repository } from '../harness/repository.ts'
import { type TestServer, testServer } from '../harness/server.ts'

let server: TestServer
let source: Repository
let projectId: string
beforeAll(async () => {
  server = await testServer()
  projectId = (await server.client.projects.create({ body: { name: 'p', plan: 'enterprise' } })).id
  source = await repository({
    'package.json': JSON.stringify({ scripts: { start: 'node server.js' } }),
    'server.js': `require('node:http')
  .createServer((request, response) => response.end(JSON.stringify(process.env)))
  .listen(process.env.PORT)`,
  })
})
afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await source[Symbol.asyncDispose]()
})

interface Given {
  readonly env_vars?: Record<string, string>
  readonly keep_env_vars?: string[]
}

const deploy = async (name: string, given: Given, project = projectId) => {
  const made = await deployAndSettle(server.client, project, { name, git_url: source.url, ...given })
  expect(made).toMatchObject({ status: 'running', failure: null })
  return made
}

/** Returns the variables that a test set for an app, as the app sees them. */
const seenBy = async ({ url }: { url: string }): Promise<Record<string, string>> => {
  const environment = (await (await fetch(url)).json()) as Record<string, string>
  return Object.fromEntries(Object.entries(environment).filter(([name]) => name.startsWith('OWN_')))
}

const refused = (name: string, given: Given & { readonly git_url?: string }) =>
  server.client.deployments
    .create({ params: { project_id: projectId }, body: { name, git_url: source.url, ...given } })
    .then(
      () => undefined,
      (error: unknown) => error,
    )

describe('the variables of another release', () => {
  it('are kept by name, changed, added and dropped, and no value is in an answer', async () => {
    const before = { OWN_KEPT: 'a secret value', OWN_CHANGED: 'old', OWN_DROPPED: 'gone' }
    const first = await deploy('web', { env_vars: before })
    expect(first.env_var_names).toEqual(['OWN_CHANGED', 'OWN_DROPPED', 'OWN_KEPT'])
    expect(first.latest_id).toBe(first.id)
    const second = await deploy('web', {
      env_vars: { OWN_CHANGED: 'new', OWN_ADDED: '' },
      keep_env_vars: ['OWN_KEPT', 'OWN_CHANGED'],
    })
    expect(await seenBy(second)).toEqual({ OWN_KEPT: 'a secret value', OWN_CHANGED: 'new', OWN_ADDED: '' })
    expect(second.env_var_names).toEqual(['OWN_ADDED', 'OWN_CHANGED', 'OWN_KEPT'])
    const read = await server.client.deployments.get({ params: { project_id: projectId, id: first.id } })
    expect(read).toMatchObject({ env_var_names: first.env_var_names, latest_id: second.id })
    expect(JSON.stringify([first, second, read])).not.toContain('a secret value')
  })

  it('are empty without values and names', async () => {
    await deploy('bare', { env_vars: { OWN_A: 'a' } })
    const second = await deploy('bare', {})
    expect(await seenBy(second)).toEqual({})
    expect(second.env_var_names).toEqual([])
  })

  it('are refused when the latest release lacks a name, and the error lists the missing names', async () => {
    await deploy('strict', { env_vars: { OWN_A: 'a' } })
    expect(await refused('strict', { keep_env_vars: ['OWN_A', 'OWN_B', 'OWN_C'] })).toMatchObject({
      code: 'invalid_request',
      details: {
        field: 'keep_env_vars.1',
        errors: [
          { field: 'keep_env_vars.1', message: 'the latest deployment of strict has no variable OWN_B' },
          { field: 'keep_env_vars.2' },
        ],
      },
    })
    expect(await refused('strict', { keep_env_vars: ['constructor'] })).toMatchObject({ code: 'invalid_request' })
    expect(await refused('strict', { keep_env_vars: ['not a name'] })).toMatchObject({
      details: { field: 'keep_env_vars.0' },
    })
    const { deployments } = await server.client.deployments.list({ params: { project_id: projectId } })
    expect(deployments.filter(({ name }) => name === 'strict')).toHaveLength(1)
  })

  it('are kept only from the same app, not from another app of any project', async () => {
    const other = await server.client.projects.create({ body: { name: 'other' } })
    await deploy('one', { env_vars: { OWN_A: 'of one' } })
    await deploy('two', { env_vars: { OWN_B: 'of two' } }, other.id)
    for (const [name, kept] of [
      ['two', 'OWN_A'],
      ['two', 'OWN_B'],
      ['never-deployed', 'OWN_A'],
    ] as const) {
      expect(await refused(name, { keep_env_vars: [kept] })).toMatchObject({ details: { field: 'keep_env_vars.0' } })
    }
    const { deployments } = await server.client.deployments.list({ params: { project_id: projectId } })
    expect(deployments.filter(({ name }) => name === 'never-deployed')).toEqual([])
  })

  it('are not kept for the code of another repository', async () => {
    await using spy = await repository({ 'index.html': 'I read everything' })
    await deploy('guarded', { env_vars: { OWN_A: 'secret' } })
    expect(await refused('guarded', { git_url: spy.url, keep_env_vars: ['OWN_A'] })).toMatchObject({
      code: 'invalid_request',
      details: { field: 'keep_env_vars' },
    })
  })

  it('are kept from the target of a rollback', async () => {
    const good = await deploy('back', { env_vars: { OWN_A: 'good', OWN_ONLY: 'here' } })
    const bad = await deploy('back', { env_vars: { OWN_A: 'bad' } })
    expect(await server.client.deployments.get({ params: { project_id: projectId, id: good.id } })).toMatchObject({
      latest_id: bad.id,
    })
    await server.client.deployments.rollback({ params: { project_id: projectId, id: good.id } })
    expect(await settled(server.client, projectId, good.id)).toMatchObject({ status: 'running', latest_id: good.id })
    const next = await deploy('back', { keep_env_vars: ['OWN_A', 'OWN_ONLY'], env_vars: { OWN_NEW: 'new' } })
    expect(await seenBy(next)).toEqual({ OWN_A: 'good', OWN_ONLY: 'here', OWN_NEW: 'new' })
  })

  it('are limited to 200, kept variables included', async () => {
    const many = (letter: string) =>
      Object.fromEntries(Array.from({ length: 101 }, (_, at) => [`OWN_${letter}${at}`, `${at}`]))
    await deploy('many', { env_vars: many('A') })
    expect(await refused('many', { env_vars: many('B'), keep_env_vars: Object.keys(many('A')) })).toMatchObject({
      details: { field: 'keep_env_vars' },
    })
  })

  it('are stored encrypted, separately for each deployment', async () => {
    await deploy('sealed', { env_vars: { OWN_A: 'plain to nobody' } })
    await deploy('sealed', { keep_env_vars: ['OWN_A'] })
    const rows = await server.database.query<{ variables: Buffer }>(
      "select variables from deployments join apps on apps.id = app_id where apps.name = 'sealed'",
    )
    expect(rows).toHaveLength(2)
    for (const { variables } of rows) expect(variables.toString('latin1')).not.toContain('plain to nobody')
    expect(rows[0]?.variables.equals(rows[1]?.variables ?? Buffer.alloc(0))).toBe(false)
  })
})
