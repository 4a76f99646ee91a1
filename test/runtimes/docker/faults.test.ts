import { expect, it } from 'vitest'
import { freeBytesIn } from '../../../server/src/platform/disk/free-space.ts'
import { createContainers } from '../../../server/src/runtimes/docker/calls/containers.ts'
import type { Container } from '../../../server/src/runtimes/docker/calls/types.ts'
import { createFreeOfEngine } from '../../../server/src/runtimes/docker/capabilities.ts'
import { endContainer } from '../../../server/src/runtimes/docker/containers/end.ts'
import { specificationOf } from '../../../server/src/runtimes/docker/containers/specification.ts'
import { contextArchive } from '../../../server/src/runtimes/docker/dockerfiles/context/context.ts'
import { parseIgnoreFile } from '../../../server/src/runtimes/docker/dockerfiles/context/ignore.ts'
import { createEngine } from '../../../server/src/runtimes/docker/engine/engine.ts'
import { EngineError } from '../../../server/src/runtimes/docker/engine/error.ts'
import { networkOfContainer } from '../../../server/src/runtimes/docker/network/networks.ts'
import { createReleaseStore } from '../../../server/src/runtimes/docker/releases.ts'

it('a container whose image names a signal that does not exist is ended', async () => {
  const running = { State: { Running: true }, Config: { StopSignal: 'SIGNONE' } } as unknown as Container
  const end = Promise.withResolvers<number>()
  const sent: string[] = []
  const containers = {
    inspect: async () => running,
    signal: async (_: string, signal: string) => {
      sent.push(signal)
      if (signal === 'SIGNONE') throw new EngineError('POST containers/c/kill', 400, 'Invalid signal: SIGNONE')
      end.resolve(0)
    },
    ended: () => end.promise,
  }
  await endContainer(containers, 'c', { graceMs: 60_000 })
  expect(sent.slice(0, 2)).toEqual(['SIGNONE', 'SIGTERM'])
})

it('the health check of an image is for web alone, since no other command would pass it', () => {
  const specificationFor = (internalName: string | null) =>
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
      config: { Healthcheck: { Interval: 1e9 } },
      command: { argv: ['work'] },
      port: 8080,
      network: networkOfContainer('c'),
      labels: {},
      dialogue: null,
    })
  expect(specificationFor('shop')).toMatchObject({ Healthcheck: { Interval: 5e9 } })
  expect(specificationFor(null)).toMatchObject({ Healthcheck: { Test: ['NONE'] } })
})

it('an engine that is away has made nothing, so that no other runtime waits for it', async () => {
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

it('the free space of an engine on a disk of its own is looked at, and not that of one on the disk of the data directory', async () => {
  const engineAt = (DockerRootDir: string) => ({ call: async <T>() => ({ DockerRootDir }) as T })
  expect(await createFreeOfEngine(engineAt('/'), '/')()).toBeNull()
  expect(await createFreeOfEngine(engineAt('/nonexistent'), '/')()).toBeNull()
  const free = await createFreeOfEngine(engineAt('/dev'), '/')()
  expect(free).toBe(await freeBytesIn('/dev'))
})

it('a context that cannot be read fails with its reason, although nobody reads it yet', async () => {
  const context = { folder: '/nonexistent', dockerfile: 'Dockerfile', text: '', rules: parseIgnoreFile('') }
  const archive = contextArchive(context, () => ['env'], new AbortController().signal)
  await new Promise((closed) => archive.once('close', closed))
  expect(archive.errored).toBeInstanceOf(Error)
})
