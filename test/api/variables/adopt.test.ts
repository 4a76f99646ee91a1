import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectNotFound, succeed, withKey } from '../../harness/conformance.ts'
import { type ServerWithVariables, seenBy, serverWithVariables } from '../../harness/variables.ts'

let given: ServerWithVariables
beforeAll(async () => {
  given = await serverWithVariables()
})
afterAll(() => given?.[Symbol.asyncDispose]())

const caller = () => withKey(given.server, given.server.apiKey)
const none = { added: [], changed: [], removed: [] }

describe('POST /projects/:project_id/apps/:app_id/variables/adopt', () => {
  it('gives the app the variables of its deployment, and changes nothing that runs', async () => {
    const app = await given.app('web', { env_vars: { OWN_A: 'given', OWN_B: 'given' } })
    const body = { set: { OWN_A: 'of the app', OWN_C: 'of the app' }, kind: 'plain' as const }
    const before = await given.client.variables.update({ params: app.params, body })
    expect(before).toMatchObject({ env_vars: ['OWN_A', 'OWN_B'], pending: { ...none, added: ['OWN_C'] } })
    const after = await succeed(caller(), 'variables.adopt', app.params)
    expect(after).toMatchObject({
      env_vars: [],
      pending: before.pending,
      variables: [
        { name: 'OWN_A', kind: 'secret' },
        { name: 'OWN_B', kind: 'secret' },
        { name: 'OWN_C', kind: 'plain' },
      ],
    })
    // A second call finds nothing to do.
    expect(await given.client.variables.adopt({ params: app.params })).toEqual(after)
    await given.client.variables.update({ params: app.params, body: { set: { OWN_A: 'changed' }, unset: ['OWN_B'] } })
    await given.apply(app)
    expect(await seenBy(app)).toEqual({ OWN_A: 'changed', OWN_C: 'of the app', version: 'first' })
    await expectNotFound(given.server, 'variables.adopt', app.params)
  })
})
