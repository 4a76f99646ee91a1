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

describe('GET /projects/:project_id/links', () => {
  it('lists the links of the project, newest first, for both sides', async () => {
    await given.linkedApp('first')
    await given.linkedApp('second')
    const { links } = await succeed(caller(), 'links.list', inProject())
    expect(links.map(({ app_name, database_name }) => [app_name, database_name])).toEqual([
      ['second', 'database of second'],
      ['first', 'database of first'],
    ])
    await expectNotFound(given.server, 'links.list', inProject())
  })
})
