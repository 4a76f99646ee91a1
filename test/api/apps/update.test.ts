import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ask, expectNotFound, succeed, withKey } from '../../harness/conformance.ts'
import { type ServerWithProject, serverWithProject } from '../../harness/project.ts'

let given: ServerWithProject
beforeAll(async () => {
  given = await serverWithProject()
})
afterAll(() => given?.[Symbol.asyncDispose]())

const caller = () => withKey(given.server, given.server.apiKey)
const inProject = () => ({ project_id: given.projectId })

describe('PATCH /projects/:project_id/apps/:id', () => {
  it('keeps its address and its releases under another name', async () => {
    const { id, url } = await given.deploy('before')
    const app = await given.appNamed('before')
    const renamed = await succeed(caller(), 'apps.update', { ...inProject(), id: app.id }, { name: ' after ' })
    expect(renamed).toMatchObject({ name: 'after', url, serving: { id } })
    expect(await (await fetch(url)).text()).toBe('here')
    const next = await given.deploy('after')
    expect(next.url).toBe(url)
    await given.deploy('other')
    const taken = await ask(caller(), 'apps.update', { ...inProject(), id: app.id }, { name: 'other' })
    expect([taken.status, taken.text]).toEqual([400, expect.stringContaining('is the name of another app')])
    // Its own name is no conflict.
    await succeed(caller(), 'apps.update', { ...inProject(), id: app.id }, { name: 'after' })
  })

  it('answers 404 with the body of an app that never existed', async () => {
    const id = await given.appRow()
    await expectNotFound(given.server, 'apps.update', { ...inProject(), id })
  })
})
