import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectNotFound, succeed, withKey } from '../../harness/conformance.ts'
import { type ServerWithVariables, serverWithVariables } from '../../harness/variables.ts'

let given: ServerWithVariables
beforeAll(async () => {
  given = await serverWithVariables()
})
afterAll(() => given?.[Symbol.asyncDispose]())

const caller = () => withKey(given.server, given.server.apiKey)
const none = { added: [], changed: [], removed: [] }

describe('GET /projects/:project_id/apps/:app_id/variables', () => {
  it('shows plain values only to users who may write, hides secret values from all, and shows what applying would change', async () => {
    const deployed = await given.deploy('listed', { env_vars: { OWN_GIVEN: 'of the deployment' } })
    const { params } = await given.appNamed('listed')
    expect(await succeed(caller(), 'variables.list', params)).toEqual({
      variables: [],
      deployment_id: deployed.id,
      env_vars: ['OWN_GIVEN'],
      pending: none,
    })
    await given.client.variables.update({ params, body: { set: { OWN_PLAIN: 'blue' }, kind: 'plain' } })
    await given.client.variables.update({ params, body: { set: { OWN_SECRET: 'a secret value' } } })
    const shown = await succeed(caller(), 'variables.list', params)
    expect(shown).toMatchObject({
      variables: [
        { name: 'OWN_PLAIN', kind: 'plain', value: 'blue' },
        { name: 'OWN_SECRET', kind: 'secret', value: null },
      ],
      pending: { added: ['OWN_PLAIN', 'OWN_SECRET'], changed: [], removed: [] },
    })
    const reader = withKey(given.server, await given.server.key({ preset: 'read' }))
    const { variables } = await succeed(reader, 'variables.list', params)
    expect(variables.map(({ value }) => value)).toEqual([null, null])
    const rows = await given.server.database.query<{ value: Buffer }>('select value from app_variables')
    for (const { value } of rows) expect(value.toString('latin1')).not.toMatch(/blue|a secret value/)
    await expectNotFound(given.server, 'variables.list', params)
  })
})
