import { randomUUID } from 'node:crypto'
import { open, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createPull, createUnfinishedPulls } from '../../../server/src/runtimes/docker/images.ts'
import { imageOf } from '../../../server/src/runtimes/docker/names.ts'
import type { Images, RegistryCredentials, Release } from '../../../server/src/runtimes/runtime.ts'
import { baseImage, noDocker } from '../../harness/docker.ts'
import { skipped } from '../../harness/ordinary-user.ts'
import { noRegistry, registryAccount, startRegistry, type TestRegistry } from '../../harness/registry.ts'
import { createDockerBench, type DockerBench } from '../../harness/runtimes/docker/support.ts'

const why = (await noDocker()) ?? (await noRegistry())
if (why !== null) skipped('pulls of images', why)

describe.skipIf(why !== null)('a pull', () => {
  const stack = new AsyncDisposableStack()
  let bench: DockerBench
  let registry: TestRegistry
  let guarded: TestRegistry
  let digest: string
  let pullImage: Images['pull'] | undefined

  beforeAll(async () => {
    bench = stack.use(await createDockerBench({ node: false }))
    registry = stack.use(await startRegistry())
    guarded = stack.use(await startRegistry({ asksForAccount: true }))
    digest = await registry.push(bench.dockerd.engine, baseImage, 'team/shop:1')
    await guarded.push(bench.dockerd.engine, baseImage, 'shop:1')
    // From now on the engine does not have it.
    await bench.dockerd.engine.call({ method: 'DELETE', path: ['images', baseImage] })
  }, 120_000)
  afterAll(() => stack.disposeAsync(), 60_000)

  const newRelease = (): Release => ({
    id: `dep_${randomUUID()}`,
    appId: `app_${randomUUID()}`,
    appNumber: 1,
    projectId: 'proj_one',
    internalName: null,
    limits: { memoryBytes: 256_000_000, cpus: 1, diskBytes: 8e9 },
    variables: {},
  })

  const pull = async (
    reference: string,
    {
      release = newRelease(),
      credentials = null as RegistryCredentials | null,
      mostBytes = 1e9,
      signal = new AbortController().signal,
    } = {},
  ) => {
    const { engine, directory } = bench.dockerd
    const fence = () => undefined
    const unfinished = createUnfinishedPulls(engine, join(directory, 'pulls'), fence)
    const server = { engine, server: bench.server, unfinished, fence }
    pullImage ??= createPull({ ...server, mostBytes: 1e9 })
    const by = mostBytes === 1e9 ? pullImage : createPull({ ...server, mostBytes })
    const path = join(directory, `${randomUUID()}.log`)
    await using output = await open(path, 'a')
    const pulled = await by(release, { reference, credentials }, { output, signal })
    return { pulled, log: await readFile(path, 'utf8') }
  }

  const namesOf = async (image: string) => {
    const found = await bench.dockerd.engine
      .call<{ RepoTags: string[]; RepoDigests: string[] }>({ method: 'GET', path: ['images', image, 'json'] })
      .catch(() => null)
    return found === null ? null : [...found.RepoTags, ...found.RepoDigests]
  }

  it('that a kill has interrupted leaves its image to the next server, which removes it', async () => {
    const { engine, directory } = bench.dockerd
    const name = `${registry.host}/team/shop@${digest}`
    const fence = () => undefined
    const before = createUnfinishedPulls(engine, join(directory, 'unfinished'), fence)
    const there = Promise.withResolvers<void>()
    // It ends with its server, and stays idle.
    void before.during(
      name,
      async () => false,
      () => {
        there.resolve()
        return new Promise(() => undefined)
      },
    )
    await there.promise
    const query = { fromImage: `${registry.host}/team/shop`, tag: digest }
    const pulled = await engine.open({ method: 'POST', path: ['images', 'create'], query, timeoutMs: 0 })
    await pulled.resume().toArray()
    expect(await namesOf(name)).toEqual([name])
    await before.clean()
    expect(await namesOf(name)).toEqual([name])
    const after = createUnfinishedPulls(engine, join(directory, 'unfinished'), fence)
    await after.clean()
    expect(await namesOf(name)).toBeNull()
  })

  it('refuses an image whose configuration is too large, and keeps nothing of it', async () => {
    const { engine } = bench.dockerd
    const name = `${registry.host}/team/shop@${digest}`
    const release = newRelease()
    await pull(name, { release })
    const body = { Image: imageOf(bench.server, release), Cmd: ['true'] }
    const { Id } = await engine.call<{ Id: string }>({ method: 'POST', path: ['containers', 'create'], body })
    const query = { container: Id, repo: 'fairlead-test/large', tag: '1' }
    const Labels = Object.fromEntries([1, 2, 3, 4].map((each) => [`label${each}`, 'x'.repeat(70_000)]))
    await engine.call({ method: 'POST', path: ['commit'], query, body: { Labels } })
    await engine.call({ method: 'DELETE', path: ['containers', Id] })
    await registry.push(engine, 'fairlead-test/large:1', 'team/large:1')
    await engine.call({ method: 'DELETE', path: ['images', 'fairlead-test/large:1'] })
    await expect(pull(`${registry.host}/team/large:1`)).rejects.toMatchObject({
      code: 'too_large',
      message: expect.stringContaining('256 kB'),
    })
    await bench.newRuntime().runtime.releases.remove(release)
    expect(await engine.call({ method: 'GET', path: ['images', 'json'] })).toEqual([])
  })

  it('gives the release the image, and a reference to exactly this image, which has no other name', async () => {
    const [first, second] = [newRelease(), newRelease()]
    const { pulled, log } = await pull(`${registry.host}/team/shop:1`, { release: first })
    expect(pulled).toBe(`${registry.host}/team/shop@${digest}`)
    expect(log).toMatch(/^[0-9a-f]{12}: Pull complete$/m)
    expect(await namesOf(imageOf(bench.server, first))).toEqual([imageOf(bench.server, first)])
    expect((await pull(pulled, { release: second })).pulled).toBe(pulled)
    const { releases } = bench.newRuntime().runtime
    expect(await releases.diskUsage(first, 'release')).toBeGreaterThan(1_000_000)
    await releases.remove(first)
    expect([await releases.isMade(first), await releases.isMade(second)]).toEqual([false, true])
    await releases.remove(second)
    const left = await bench.dockerd.engine.call<unknown[]>({ method: 'GET', path: ['images', 'json'] })
    expect(left).toEqual([])
  })

  it('of an image that the operator also has leaves the image with its names', async () => {
    const own = `${registry.host}/team/shop@${digest}`
    const query = { fromImage: `${registry.host}/team/shop`, tag: '1' }
    for await (const _ of await bench.dockerd.engine.open({ method: 'POST', path: ['images', 'create'], query }));
    const before = await namesOf(own)
    const release = newRelease()
    await pull(own, { release })
    await bench.newRuntime().runtime.releases.remove(release)
    expect(await namesOf(own)).toEqual(before)
    await bench.dockerd.engine.call({ method: 'DELETE', path: ['images', `${registry.host}/team/shop:1`] })
  })

  it('by two releases at once leaves both with the image', async () => {
    const both = [newRelease(), newRelease()]
    await Promise.all(both.map((release) => pull(`${registry.host}/team/shop:1`, { release })))
    const { releases } = bench.newRuntime().runtime
    for (const release of both) expect(await releases.isMade(release)).toBe(true)
    await Promise.all(both.map((release) => releases.remove(release)))
    expect(await namesOf(`${registry.host}/team/shop@${digest}`)).toBeNull()
  })

  it.each([
    ['a tag that does not exist', 'image_not_found', () => `${registry.host}/team/shop:2`, null],
    ['a repository that does not exist', 'image_not_found', () => `${registry.host}/team/none:1`, null],
    [
      'a digest that does not exist',
      'image_not_found',
      () => `${registry.host}/team/shop@sha256:${'0'.repeat(64)}`,
      null,
    ],
    ['a registry that asks for credentials', 'image_denied', () => `${guarded.host}/shop:1`, null],
    [
      'a registry that refuses the credentials',
      'image_denied',
      () => `${guarded.host}/shop:1`,
      { ...registryAccount, password: 'another' },
    ],
    ['a registry that does not answer', 'registry_unreachable', () => '127.0.0.1:1/shop:1', null],
    ['a host that does not exist', 'registry_unreachable', () => 'registry.invalid/shop:1', null],
  ])('of %s fails as %s, with a message without secrets', async (_, code, reference, credentials) => {
    const error = await pull(reference(), { credentials }).catch((reason: unknown) => reason)
    expect(error).toMatchObject({ name: 'RuntimeError', code })
    expect((error as Error).message).not.toMatch(/another|sha256|dial|\/v2\//)
  })

  it('with the right credentials gets the image, and the engine stores no credentials', async () => {
    const release = newRelease()
    const { pulled } = await pull(`${guarded.host}/shop:1`, { release, credentials: registryAccount })
    expect(pulled).toContain(`${guarded.host}/shop@sha256:`)
    await bench.newRuntime().runtime.releases.remove(release)
    await expect(pull(pulled)).rejects.toMatchObject({ code: 'image_denied' })
  })

  it('of an image that is too large, or that is aborted, leaves nothing', async () => {
    const tooLarge = pull(`${registry.host}/team/shop:1`, { mostBytes: 100_000 })
    await expect(tooLarge).rejects.toMatchObject({ code: 'too_large' })
    const abort = new AbortController()
    const reason = new Error('canceled')
    const canceled = pull(`${registry.host}/team/shop:1`, { signal: abort.signal })
    abort.abort(reason)
    await expect(canceled).rejects.toBe(reason)
    expect(await bench.dockerd.engine.call({ method: 'GET', path: ['images', 'json'] })).toEqual([])
  })

  it.each([
    '-v',
    '--privileged',
    'https://docker.io/nginx',
    'a b',
    'shop:-tag',
    '../shop',
    'Shop',
    '',
    'a'.repeat(600),
  ])('of the reference %j is refused before the engine sees it', async (reference) => {
    await expect(pull(reference)).rejects.toMatchObject({ code: 'image_not_found' })
  })
})
