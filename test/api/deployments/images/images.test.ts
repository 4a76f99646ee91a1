import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type ServerWithImages, serverWithImages } from '../../../harness/image-server.ts'
import { digestOf } from '../../../harness/runtimes/example-images.ts'

let given: ServerWithImages
beforeAll(async () => {
  given = await serverWithImages()
})
afterAll(() => given?.[Symbol.asyncDispose]())

const image = 'registry.example/team/shop:1'
const name = 'registry.example/team/shop'
const [first, second] = [digestOf('1'), digestOf('2')]
beforeEach(() => {
  for (const digest of [first, second]) given.registry.commands.set(digest, ['node', 'app.js', 'listens'])
  given.registry.tags.set(image, first)
  given.registry.credentials = null
  given.registry.pulls.length = 0
})

/** The names of a deployment's steps. The last one may be written a moment after the deployment runs. */
const stepsOf = (id: string) =>
  expect.poll(async () => (await given.client.deployments.get(given.paramsOf(id))).steps.map(({ name }) => name))
const greet = async (url: string) => JSON.parse(await (await fetch(url)).text()).GREETING

describe('a deployment of an image', () => {
  it('pulls it, keeps its digest, and runs it with the variables of the app', async () => {
    const made = await given.release('shop', { image, env_vars: { GREETING: 'hello' }, env_vars_for: 'app' })
    expect(made).toMatchObject({
      status: 'running',
      failure: null,
      git_url: null,
      source_id: null,
      commit: null,
      image: { reference: image, digest: first },
    })
    await stepsOf(made.id).toEqual(['queued', 'fetch', 'start', 'check', 'switch'])
    expect(await greet(made.url)).toBe('hello')
    expect(await given.logOf(made.id)).toContain(`Pulling ${image}`)
    const { serving } = await given.appNamed('shop')
    expect(serving).toMatchObject({ git_url: null, image: { reference: image, digest: first } })
  })

  it('is rolled back to, restarted and promoted without its registry', async () => {
    const before = await given.release('rolled', { image })
    given.registry.tags.set(image, second)
    expect((await given.release('rolled', { image })).image).toEqual({ reference: image, digest: second })
    given.registry.commands.clear()
    given.registry.pulls.length = 0
    await given.client.deployments.rollback(given.paramsOf(before.id))
    expect(await given.end(before.id)).toMatchObject({ status: 'running', image: { digest: first } })
    const promoted = await given.release('production', {
      from_deployment_id: before.id,
      env_vars: { GREETING: 'from here' },
    })
    expect(promoted).toMatchObject({ status: 'running', failure: null, image: { reference: image, digest: first } })
    await stepsOf(promoted.id).toEqual(['queued', 'copy', 'start', 'check', 'switch'])
    expect(await greet(promoted.url)).toBe('from here')
    expect(given.registry.pulls).toEqual([])
  })

  it('keeps its digest when the variables of its app are applied, even if its tag has moved', async () => {
    await given.release('applied', { image })
    given.registry.tags.set(image, second)
    const { id } = await given.appNamed('applied')
    const params = { project_id: given.projectId, app_id: id }
    await given.client.variables.update({ params, body: { set: { GREETING: 'changed' } } })
    given.registry.pulls.length = 0
    const applied = await given.client.apps.apply({ params: { project_id: given.projectId, id }, body: {} })
    const after = await given.end(applied.id)
    expect(after).toMatchObject({ status: 'running', image: { reference: image, digest: first } })
    expect(given.registry.pulls).toEqual([`${image}@${first}`])
    expect(await greet(after.url)).toBe('changed')
  })

  it('gets the project’s credentials for its registry, and for no other registry', async () => {
    const credentials = { username: 'deploy', password: 'token-that-may-pull' }
    given.registry.credentials = credentials
    const refused = await given.release('private', { image })
    expect(refused.failure).toMatchObject({ stage: 'fetch', code: 'image_denied' })
    const params = { project_id: given.projectId }
    const store = (host: string) => given.client.registries.set({ params, body: { registry: host, ...credentials } })
    const { id: other } = await store('other.example')
    expect((await given.release('private', { image })).failure).toMatchObject({ code: 'image_denied' })
    const { id } = await store('registry.example')
    const made = await given.release('private', { image })
    expect(made).toMatchObject({ status: 'running' })
    expect(await given.logOf(made.id)).toContain(`Pulling ${image} as deploy\n`)
    expect(await given.logOf(made.id)).not.toContain('token-that-may-pull')
    for (const each of [other, id]) await given.client.registries.delete({ params: { ...params, id: each } })
  })

  it('without an image in the registry fails with advice, and leaves nothing', async () => {
    const made = await given.release('missing', { image: `${name}:none` })
    expect(made).toMatchObject({
      status: 'failed',
      kept: false,
      failure: { stage: 'fetch', code: 'image_not_found' },
      image: { reference: `${name}:none`, digest: null },
    })
  })

  it.each([
    [{ image, git_url: 'https://example.com/a.git' }, 'image', 'together with git_url'],
    [{ image, branch: 'main' }, 'branch', 'only with git_url'],
    [{ image, root: 'web' }, 'root', 'only for sources'],
    [{ image: 'Registry.example/Shop' }, 'image', 'lower case'],
    [{ image: '--privileged' }, 'image', 'name of an image'],
    [{}, 'git_url', 'is required, or source_id, from_deployment_id or image'],
  ])('of %j is refused', async (body, field, message) => {
    const params = { project_id: given.projectId }
    const refused = given.client.deployments.create({ params, body: { name: 'none', ...body } })
    const errors = expect.arrayContaining([{ field, message: expect.stringContaining(message) }])
    await expect(refused).rejects.toMatchObject({ code: 'invalid_request', details: { errors } })
  })
})

describe('secret variables of an app', () => {
  it('stay with the name of its image, which a key cannot change', async () => {
    const env = { env_vars: { TOKEN: 'secret-of-the-shop' }, env_vars_for: 'app' } as const
    expect((await given.release('secret', { image, ...env })).status).toBe('running')
    const refuse = async (body: object, field: string) =>
      expect(given.release('secret', body)).rejects.toMatchObject({
        code: 'invalid_request',
        details: {
          errors: [{ field, message: expect.stringContaining(`stay with the image ${name}.`) }],
        },
      })
    await refuse({ image: 'registry.example/team/thief:1' }, 'image')
    // Nor with a git address by ssh: the host registry.example and the path team/shop.
    await refuse({ git_url: 'registry.example:team/shop' }, 'git_url')
    await refuse({ git_url: given.source.url }, 'git_url')
    given.registry.tags.set(image, second)
    expect(await given.release('secret', { image })).toMatchObject({ status: 'running', env_var_names: ['TOKEN'] })
    const byUser = (await given.server.signIn()).client
    const other = 'registry.example/team/moved:1'
    given.registry.tags.set(other, first)
    const body = { name: 'secret', image: other }
    const { id } = await byUser.deployments.create({ params: { project_id: given.projectId }, body })
    expect(await given.end(id)).toMatchObject({ status: 'running', env_var_names: ['TOKEN'] })
    await expect(given.release('secret', { image })).rejects.toMatchObject({ details: { field: 'image' } })
  })
})
