import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectNotFound, succeed, withKey } from '../../harness/conformance.ts'
import { type ServerWithProject, serverWithProject } from '../../harness/project.ts'

let given: ServerWithProject
beforeAll(async () => {
  given = await serverWithProject()
})
afterAll(() => given?.[Symbol.asyncDispose]())

const caller = () => withKey(given.server, given.server.apiKey)
const inProject = () => ({ project_id: given.projectId })

describe('GET /projects/:project_id/apps', () => {
  it('lists newest first, page by page', async () => {
    await given.deploy('older')
    await given.deploy('newer')
    const names: string[] = []
    for await (const { apps } of given.client.apps.list.pages({ params: inProject(), query: { limit: 1 } })) {
      expect(apps).toHaveLength(1)
      names.push(...apps.map(({ name }) => name))
    }
    expect(names.indexOf('newer')).toBeLessThan(names.indexOf('older'))
  })

  it('answers 404 with the body of a project that never existed', async () => {
    expect(await succeed(caller(), 'apps.list', inProject())).toMatchObject({ apps: expect.any(Array) })
    await expectNotFound(given.server, 'apps.list', inProject())
  })
})
