import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type ServerWithImages, serverWithImages } from '../../../harness/image-server.ts'
import { serverWithProject } from '../../../harness/project.ts'
import { nodeApp, repository } from '../../../harness/repository.ts'

let given: ServerWithImages
beforeAll(async () => {
  given = await serverWithImages()
})
afterAll(() => given?.[Symbol.asyncDispose]())

const dockerfile = { Dockerfile: 'FROM scratch' }
const stage = (target: string) => ({ 'fairlead.json': JSON.stringify({ dockerfile: { target } }) })
/** The names of a deployment's steps. The last one may be written a moment after the deployment runs. */
const stepsOf = (id: string) =>
  expect.poll(async () => (await given.client.deployments.get(given.paramsOf(id))).steps.map(({ name }) => name))

describe('an app with a Dockerfile', () => {
  it('is built by the Dockerfile when it is new, and says so in its log', async () => {
    await using source = await repository({ ...nodeApp('by node'), ...dockerfile })
    const made = await given.release('new', { git_url: source.url })
    expect(made).toMatchObject({ status: 'running', failure: null, git_url: source.url, image: null })
    await stepsOf(made.id).toEqual(['queued', 'fetch', 'plan', 'build', 'start', 'check', 'switch'])
    const log = await given.logOf(made.id)
    expect(log).toContain('The Dockerfile builds the app.')
    expect(log).toContain('Step 1/1: Dockerfile in ., for the last stage')
    expect(await (await fetch(made.url)).json()).toHaveProperty('PORT')
  })

  it('is built as before, until its owner asks for the Dockerfile', async () => {
    await using source = await repository(nodeApp('by node'))
    await given.release('old', { git_url: source.url })
    await source.commit(dockerfile)
    const kept = await given.release('old', { git_url: source.url })
    expect(await (await fetch(kept.url)).text()).toBe('by node')
    expect(await given.logOf(kept.id)).toContain('The Dockerfile is not used')
    await source.commit({ 'fairlead.json': JSON.stringify({ builder: 'dockerfile' }) })
    const asked = await given.release('old', { git_url: source.url })
    expect(asked).toMatchObject({ status: 'running', failure: null })
    expect(await (await fetch(asked.url)).json()).toHaveProperty('PORT')
    await given.client.deployments.rollback(given.paramsOf(kept.id))
    expect(await given.end(kept.id)).toMatchObject({ status: 'running' })
    expect(await (await fetch(asked.url)).text()).toBe('by node')
  })

  it('in a folder is built there, and promoted without another build', async () => {
    await using source = await repository({ 'apps/web/Dockerfile': 'FROM scratch', 'README.md': '' })
    const made = await given.release('folder', { git_url: source.url, root: 'apps/web' })
    expect(await given.logOf(made.id)).toContain('Step 1/1: apps/web/Dockerfile in apps/web,')
    const promoted = await given.release('promoted', { from_deployment_id: made.id })
    expect(promoted).toMatchObject({ status: 'running', failure: null, git_url: source.url })
    await stepsOf(promoted.id).toEqual(['queued', 'copy', 'start', 'check', 'switch'])
  })

  it.each([
    ['fails', { code: 'build_failed', message: expect.stringContaining('The build of Dockerfile ended with code 1.') }],
    ['eats', { code: 'out_of_memory', message: expect.stringContaining('more than the 512 MB of memory') }],
  ])('whose build %s fails with the end of its output', async (target, failure) => {
    await using source = await repository({ ...dockerfile, ...stage(target) })
    const made = await given.release(target, { git_url: source.url })
    expect(made).toMatchObject({ status: 'failed', kept: false, failure: { stage: 'build', ...failure } })
    expect(made.failure?.message).toContain(`Its last output:\nStep 1/1: Dockerfile in ., for ${target}`)
  })

  it('begins with images of registries for which only its project has credentials', async () => {
    await using source = await repository({ ...dockerfile, ...stage('private') })
    const credentials = { username: 'deploy', password: 'token-that-may-pull' }
    given.registry.credentials = credentials
    const store = async (project_id: string) =>
      given.client.registries.set({ params: { project_id }, body: { registry: 'registry.example', ...credentials } })
    await store((await given.client.projects.create({ body: { name: 'other', plan: 'free' } })).id)
    const refused = await given.release('private', { git_url: source.url })
    expect(refused.failure).toMatchObject({ stage: 'build', code: 'image_denied' })
    await store(given.projectId)
    const made = await given.release('private', { git_url: source.url })
    expect(made).toMatchObject({ status: 'running', failure: null })
    expect(await given.logOf(made.id)).not.toContain('token-that-may-pull')
  })

  it('is canceled during its build', async () => {
    await using source = await repository({ ...dockerfile, ...stage('hangs') })
    const { id } = await given.create('hangs', source.url)
    await expect.poll(() => given.logOf(id)).toContain('for hangs')
    expect(await given.client.deployments.cancel(given.paramsOf(id))).toMatchObject({ status: 'canceled' })
    // The app's next build begins only when the canceled build is removed.
    await source.commit({ 'fairlead.json': '{}' })
    expect(await given.release('hangs', { git_url: source.url })).toMatchObject({ status: 'running' })
  })
})

describe('a server without Docker', () => {
  it('refuses images and Dockerfiles, and names the setting that turns Docker on', async () => {
    await using source = await repository(dockerfile)
    await using without = await serverWithProject()
    const setting = expect.stringContaining('FAIRLEAD_RUNTIME=process,docker')
    expect((await without.deploy('dockerfile', source.url)).failure).toMatchObject({
      stage: 'plan',
      code: 'not_recognised',
      message: setting,
    })
    await source.commit({ 'fairlead.json': JSON.stringify({ builder: 'dockerfile' }) })
    expect((await without.deploy('dockerfile', source.url)).failure).toMatchObject({
      code: 'no_docker',
      message: setting,
    })
    const params = { project_id: without.projectId }
    const refused = without.client.deployments.create({ params, body: { name: 'image', image: 'docker.io/nginx' } })
    await expect(refused).rejects.toMatchObject({
      code: 'invalid_request',
      details: { field: 'image', errors: [{ field: 'image', message: setting }] },
    })
    expect((await without.client.apps.list({ params })).apps.map(({ name }) => name)).toEqual(['dockerfile'])
  })
})
