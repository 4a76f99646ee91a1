import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectNotFound, succeed, withKey } from '../../harness/conformance.ts'
import { type ServerWithVariables, serverWithVariables } from '../../harness/variables.ts'

let given: ServerWithVariables
beforeAll(async () => {
  given = await serverWithVariables()
})
afterAll(() => given?.[Symbol.asyncDispose]())

const caller = () => withKey(given.server, given.server.apiKey)

describe('POST /projects/:project_id/apps/:app_id/variables/copy', () => {
  it('copies variables with their kinds and values, all or by name, even from another project', async () => {
    const from = await given.app('from')
    await given.client.variables.update({ params: from.params, body: { set: { OWN_A: 'plain' }, kind: 'plain' } })
    await given.client.variables.update({ params: from.params, body: { set: { OWN_B: 'secret of from' } } })
    const to = await given.app('to')
    await given.client.variables.update({ params: to.params, body: { set: { OWN_A: 'other', OWN_C: 'stays' } } })
    const copied = await succeed(caller(), 'variables.copy', to.params, { from: from.id })
    expect(copied.variables).toMatchObject([
      { name: 'OWN_A', kind: 'plain', value: 'plain' },
      { name: 'OWN_B', kind: 'secret', value: null },
      { name: 'OWN_C', kind: 'secret', value: null },
    ])
    expect((await given.apply(to)).env_var_names).toEqual(['OWN_A', 'OWN_B', 'OWN_C'])

    const { id: project_id } = await given.client.projects.create({ body: { name: 'other' } })
    await given.client.deployments.create({ params: { project_id }, body: { name: 'far', git_url: given.source.url } })
    const [far] = (await given.client.apps.list({ params: { project_id } })).apps
    const params = { project_id, app_id: far?.id ?? '' }
    const body = { from: from.id, from_project: given.projectId, names: ['OWN_B'] }
    expect((await given.client.variables.copy({ params, body })).variables.map(({ name }) => name)).toEqual(['OWN_B'])
    const unknown = given.client.variables.copy({ params, body: { ...body, names: ['OWN_B', 'OWN_X'] } })
    await expect(unknown).rejects.toMatchObject({ details: { field: 'names.1' } })
    await expectNotFound(given.server, 'variables.copy', to.params)

    // A key that is bound to this project reads nothing of the other project.
    const bound = await given.server.key({ projectIds: [project_id] })
    const refused = (request: Promise<unknown>) => expect(request).rejects.toMatchObject({ details: { field: 'from' } })
    await refused(given.server.clientFor(bound).variables.copy({ params, body }))
    for (const wrong of [{ from: params.app_id }, { from: 'nonsense' }, { ...body, from_project: 'nonsense' }]) {
      await refused(given.client.variables.copy({ params, body: wrong }))
    }
  })

  it('copies nothing from another account’s app', async () => {
    const from = await given.app('mine')
    await given.client.variables.update({ params: from.params, body: { set: { OWN_A: 'mine alone' } } })
    const { id: accountId } = await given.server.accounts.create({ name: 'stranger', plan: 'free' })
    const stranger = given.server.clientFor(await given.server.key({ accountId }))
    const { id: project_id } = await stranger.projects.create({ body: { name: 'p' } })
    await stranger.deployments.create({
      params: { project_id },
      body: { name: 'a', git_url: 'https://127.0.0.1:1/a.git' },
    })
    const [app] = (await stranger.apps.list({ params: { project_id } })).apps
    const params = { project_id, app_id: app?.id ?? '' }
    for (const body of [{ from: from.id }, { from: from.id, from_project: given.projectId }]) {
      await expect(stranger.variables.copy({ params, body })).rejects.toMatchObject({ details: { field: 'from' } })
    }
    expect((await stranger.variables.list({ params })).variables).toEqual([])
  })
})
