import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectNotFound, succeed, withKey } from '../../harness/conformance.ts'
import { hangingBuild } from '../../harness/deployments.ts'
import { repository } from '../../harness/repository.ts'
import { type ServerWithVariables, seenBy, serverWithVariables } from '../../harness/variables.ts'

let given: ServerWithVariables
beforeAll(async () => {
  given = await serverWithVariables()
})
afterAll(() => given?.[Symbol.asyncDispose]())

const caller = () => withKey(given.server, given.server.apiKey)

describe('POST /projects/:project_id/apps/:id/apply', () => {
  const set = (app: { readonly params: { project_id: string; app_id: string } }, variables: Record<string, string>) =>
    given.client.variables.update({ params: app.params, body: { set: variables } })

  it('deploys the serving commit, even after a rollback, and never a newer commit of its branch', async () => {
    const first = await given.deploy('back')
    const app = await given.appNamed('back')
    const second = await given.source.commit({ version: 'second' })
    const bad = await given.deploy('back')
    expect(bad.commit).toBe(second)
    await given.client.deployments.rollback({ params: { project_id: given.projectId, id: first.id } })
    await given.end(first.id)
    await set(app, { OWN_A: 'applied' })
    const params = { project_id: given.projectId, id: app.id }
    const applied = await given.end((await succeed(caller(), 'apps.apply', params, {})).id)
    expect(applied).toMatchObject({ status: 'running', commit: first.commit, name: 'back', latest_id: applied.id })
    expect([first.id, bad.id]).not.toContain(applied.id)
    expect(await seenBy(app)).toEqual({ OWN_A: 'applied', version: 'first' })
    expect((await given.client.apps.get({ params })).serving?.trigger).toMatchObject({ kind: 'variables', by: 'key' })
    await given.source.commit({ version: 'first' })
    await expectNotFound(given.server, 'apps.apply', params)
  })

  it('deploys the serving commit when the latest deployment has failed', async () => {
    const first = await given.deploy('broken')
    const app = await given.appNamed('broken')
    expect((await given.deploy('broken', { branch: 'none' })).status).toBe('failed')
    await set(app, { OWN_A: 'applied' })
    expect(await given.apply(app)).toMatchObject({ status: 'running', commit: first.commit })
  })

  it('prefers env_vars to the app’s variables, as do restarts and rollbacks', async () => {
    const first = await given.deploy('overlaid', { env_vars: { OWN_A: 'given' } })
    const app = await given.appNamed('overlaid')
    await set(app, { OWN_A: 'of the app', OWN_B: 'of the app' })
    const applied = await given.apply(app)
    expect(await seenBy(app)).toEqual({ OWN_A: 'given', OWN_B: 'of the app', version: 'first' })
    await set(app, { OWN_B: 'changed' })
    await given.client.deployments.restart({ params: { project_id: given.projectId, id: applied.id } })
    await given.end(applied.id)
    expect(await seenBy(app)).toEqual({ OWN_A: 'given', OWN_B: 'of the app', version: 'first' })
    await given.client.deployments.rollback({ params: { project_id: given.projectId, id: first.id } })
    await given.end(first.id)
    expect(await seenBy(app)).toEqual({ OWN_A: 'given', version: 'first' })
    // Another deployment has only the app's variables.
    await given.deploy('overlaid')
    expect(await seenBy(app)).toEqual({ OWN_A: 'of the app', OWN_B: 'changed', version: 'first' })
  })

  it('is refused during a build, which would undo it', async () => {
    const app = await given.app('busy')
    await using hanging = await repository(hangingBuild)
    const params = { project_id: given.projectId }
    const body = { name: 'busy', git_url: hanging.url }
    const { id } = await given.client.deployments.create({ params, body })
    const applied = given.client.apps.apply({ params: { ...params, id: app.id }, body: {} })
    await expect(applied).rejects.toMatchObject({ code: 'invalid_request', details: { status: 'building' } })
    await given.client.deployments.cancel({ params: { ...params, id } })
  })
})

describe('POST /projects/:project_id/deployments with env_vars_for', () => {
  it('adds the variables to the app, with the previous deployment’s variables', async () => {
    const app = await given.app('kept', { env_vars: { OWN_A: 'old', OWN_B: 'stays' } })
    await given.deploy('kept', { env_vars: { OWN_A: 'new' }, env_vars_for: 'app' })
    expect(await seenBy(app)).toEqual({ OWN_A: 'new', OWN_B: 'stays', version: 'first' })
    await given.deploy('kept')
    expect(await seenBy(app)).toEqual({ OWN_A: 'new', OWN_B: 'stays', version: 'first' })
    const both = given.deploy('kept', { keep_env_vars: ['OWN_A'], env_vars_for: 'app' })
    await expect(both).rejects.toMatchObject({ details: { field: 'keep_env_vars' } })
    await given.deploy('fresh', { env_vars: { OWN_A: 'first' }, env_vars_for: 'app' })
    const { variables, env_vars } = await given.client.variables.list({
      params: (await given.appNamed('fresh')).params,
    })
    expect([variables.map(({ name }) => name), env_vars]).toEqual([['OWN_A'], []])
  })
})
