import { type FileHandle, rm } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import { Duplex, Readable, Writable } from 'node:stream'
import { expect, it } from 'vitest'
import { freeBytesIn } from '../../../../server/src/platform/disk/free-space.ts'
import { runInContainer } from '../../../../server/src/runtimes/docker/attach.ts'
import { type Container, createContainers } from '../../../../server/src/runtimes/docker/calls.ts'
import { createFreeOfEngine } from '../../../../server/src/runtimes/docker/capabilities.ts'
import { createEngine, type Engine } from '../../../../server/src/runtimes/docker/client.ts'
import { contextArchive } from '../../../../server/src/runtimes/docker/dockerfiles/context.ts'
import { parseIgnoreFile } from '../../../../server/src/runtimes/docker/dockerfiles/dockerignore.ts'
import { endContainer } from '../../../../server/src/runtimes/docker/end.ts'
import { EngineError, noAnswer } from '../../../../server/src/runtimes/docker/errors.ts'
import { createPull } from '../../../../server/src/runtimes/docker/images.ts'
import { networkOfContainer } from '../../../../server/src/runtimes/docker/network/networks.ts'
import { createReleaseStore } from '../../../../server/src/runtimes/docker/releases.ts'
import { specificationOf } from '../../../../server/src/runtimes/docker/specification.ts'
import { createVolumes } from '../../../../server/src/runtimes/docker/volumes.ts'
import type { Release } from '../../../../server/src/runtimes/runtime.ts'
import { releaseOfRow } from '../../../harness/deployment-row.ts'
import { isRoot, temporaryDirectory } from '../../../harness/temporary.ts'

it('a container whose image names an unknown signal is ended', async () => {
  const running = { State: { Running: true }, Config: { StopSignal: 'SIGNONE' } } as unknown as Container
  const end = Promise.withResolvers<number>()
  const sent: string[] = []
  const containers = {
    inspect: async () => running,
    signal: async (_: string, signal: string) => {
      sent.push(signal)
      // For every signal except SIGKILL, an engine reads the image's signal.
      if (signal !== 'SIGKILL') throw new EngineError('POST containers/c/kill', 500, 'Invalid signal: SIGNONE')
      end.resolve(0)
    },
    ended: () => end.promise,
  }
  await endContainer(containers, 'c', { graceMs: 60_000 })
  expect(sent).toEqual(['SIGNONE', 'SIGKILL'])
})

/** An engine that creates containers on request, and answers the wait for a container as `wait` does. */
function engineWith(wait: () => Promise<unknown>): Engine {
  let made: Record<string, unknown> = {}
  return {
    ...createEngine('/nonexistent/docker.sock'),
    async call<T>({ path, body }: Parameters<Engine['call']>[0]) {
      const verb = path.at(-1)
      if (verb === 'create') made = body as typeof made
      if (verb === 'create') return { Id: 'c' } as T
      if (verb === 'json') return { ...made, Config: made, State: { Running: true } } as T
      return (verb === 'wait' ? await wait() : null) as T
    },
    upgrade: async () => Duplex.from([]),
  }
}

const unknownContainer = new EngineError('POST containers/c/wait', 404, 'No such container: c')

it.each<[string, () => Promise<unknown>, unknown]>([
  ['that returns a status has it', async () => ({ StatusCode: 3 }), { code: 3 }],
  ['that disappears is no success', () => Promise.reject(unknownContainer), 'container_removed'],
])('the command of a container %s', async (_, wait, expected) => {
  const engine = engineWith(wait)
  const parts = { server: 'server', engine, containers: createContainers(engine, 'server', () => undefined) }
  const sink = () => new Writable({ write: (_chunk, _encoding, done) => done() })
  const exit = runInContainer(
    parts,
    {
      release: releaseOfRow,
      command: { argv: ['migrate'] },
      network: networkOfContainer('c', []),
      image: 'shop',
      config: null,
      port: null,
      labels: {},
    },
    {
      argv: ['migrate'],
      tty: null,
      stdin: Readable.from([]),
      stdout: sink(),
      stderr: sink(),
      signal: AbortSignal.timeout(60_000),
    },
    { graceMs: 0 },
  )
  if (typeof expected === 'string') await expect(exit).rejects.toMatchObject({ code: expected })
  else expect(await exit).toMatchObject(expected as object)
})

it('the health check of an image is only for web, since no other command would pass it', () => {
  const specificationFor = (internalName: string | null, interval = 1e9) =>
    specificationOf({
      server: 'server',
      release: {
        id: 'dep_a',
        appId: 'app_a',
        appNumber: 1,
        projectId: 'proj_a',
        internalName,
        limits: { memoryBytes: 256_000_000, cpus: 1, diskBytes: 8e9 },
        variables: {},
      },
      image: 'shop',
      config: { Healthcheck: { Interval: interval } },
      command: { argv: ['work'] },
      port: 8080,
      network: networkOfContainer('c', []),
      labels: {},
      dialogue: null,
    })
  expect(specificationFor('shop')).toMatchObject({ Healthcheck: { Interval: 5e9 } })
  expect(specificationFor('shop', -1)).toMatchObject({ Healthcheck: { Interval: 5e9 } })
  expect(specificationFor('shop', 0)).not.toHaveProperty('Healthcheck')
  expect(specificationFor(null)).toMatchObject({ Healthcheck: { Test: ['NONE'] } })
})

it('an unavailable engine has created nothing, so that no other runtime waits for it', async () => {
  const engine = createEngine('/nonexistent/docker.sock')
  const fence = () => undefined
  const containers = createContainers(engine, 'server', fence)
  const halt = async () => undefined
  const bases = { ownBytes: async () => 0 }
  const releases = createReleaseStore({
    ...{ server: 'server', engine, containers, apps: '/nonexistent', builds: null, bases, halt, fence },
    freeElsewhere: createFreeOfEngine(engine, '/'),
  })
  expect(await releases.isMade({ id: 'dep_a', appId: 'app_a' })).toBe(false)
  expect(await releases.freeElsewhere?.()).toBeNull()
  await expect(releases.list()).rejects.toThrow('cannot be reached')
})

it('a registry that accepts a request and stays silent fails the pull with this reason, and not the server', async () => {
  const version = async () => ({
    ...{ Version: '20.10.24', Os: 'linux', Arch: 'amd64' },
    ApiVersion: '1.41',
    api: '1.41',
  })
  const silent = new EngineError('GET distribution/registry.example.com/shop:1/json', null, noAnswer)
  const engine: Engine = { ...createEngine('/nonexistent/docker.sock'), version, call: () => Promise.reject(silent) }
  const unfinished = { during: <T>(_: string, __: unknown, pull: () => Promise<T>) => pull() }
  const pull = createPull({ ...{ engine, server: 'server', mostBytes: 1e9, unfinished }, fence: () => undefined })
  const image = { reference: 'registry.example.com/shop:1', credentials: null }
  const options = { output: {} as FileHandle, signal: new AbortController().signal }
  await expect(pull({ id: 'dep_a', appId: 'app_a' } as Release, image, options)).rejects.toMatchObject({
    code: 'registry_unreachable',
    message: expect.stringContaining('gave no answer'),
  })
})

it('the free space of an engine on a separate disk is checked, unlike an engine on the data directory’s disk', async () => {
  const engineAt = (DockerRootDir: string) => ({ call: async <T>() => ({ DockerRootDir }) as T })
  expect(await createFreeOfEngine(engineAt('/'), '/')()).toBeNull()
  expect(await createFreeOfEngine(engineAt('/nonexistent'), '/')()).toBeNull()
  const free = await createFreeOfEngine(engineAt('/dev'), '/')()
  expect(free).toBe(await freeBytesIn('/dev'))
})

it('an unreadable context fails with its reason before anything reads the context', async () => {
  const context = {
    folder: '/nonexistent',
    dockerfile: 'Dockerfile',
    text: '',
    rules: parseIgnoreFile(Buffer.alloc(0)),
  }
  const archive = contextArchive(context, () => ['env'], new AbortController().signal)
  await new Promise((closed) => archive.once('close', closed))
  expect(archive.errored).toBeInstanceOf(Error)
})

it.skipIf(!isRoot)('a volume whose files cannot be unpacked fails only the start of its container', async () => {
  await using apps = await temporaryDirectory()
  const volumes = createVolumes({
    engine: {
      // tar cannot start in a missing folder, as on a machine without free processes.
      open: async () => {
        await rm(apps.path, { recursive: true })
        return Readable.from([Buffer.alloc(10_240)]) as IncomingMessage
      },
    },
    containers: { create: async () => 'c', remove: async () => undefined },
    waiters: { during: (_, use) => use({}) },
    ...{ server: 'server', apps: apps.path, fence: () => undefined },
  })
  const release = { id: 'dep_a', appId: 'app_a', volumes: { uploads: '/uploads' } } as unknown as Release
  await expect(volumes.ready(release, 'shop')).rejects.toThrow('tar')
})
