import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectNotFound, succeed, withKey } from '../../harness/conformance.ts'
import { type ServerWithVariables, serverWithVariables } from '../../harness/variables.ts'

let given: ServerWithVariables
beforeAll(async () => {
  given = await serverWithVariables()
})
afterAll(() => given?.[Symbol.asyncDispose]())

const caller = () => withKey(given.server, given.server.apiKey)
const inProject = () => ({ project_id: given.projectId })

describe('DELETE /projects/:project_id/links/:id', () => {
  it('removes the variable from further releases', async () => {
    const app = await given.linkedApp('web')
    const [link] = (await given.client.links.list({ params: inProject() })).links
    const params = { ...inProject(), id: link?.id ?? '' }
    expect((await given.client.variables.list({ params: app.params })).pending.added).toEqual(['DATABASE_URL'])
    await expectNotFound(given.server, 'links.delete', params)
    await succeed(caller(), 'links.delete', params)
    expect((await given.client.variables.list({ params: app.params })).pending.added).toEqual([])
  })
})
