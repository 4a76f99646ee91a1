import { expect, it, vi } from 'vitest'
import { createExitWatch } from '../../../../server/src/runtimes/docker/end.ts'
import { EngineError, noAnswer } from '../../../../server/src/runtimes/docker/errors.ts'
import { networkOfContainer } from '../../../../server/src/runtimes/docker/network/networks.ts'
import { specificationOf } from '../../../../server/src/runtimes/docker/specification.ts'

it('a machine without free memory kills a container before the server', () => {
  const specification = specificationOf({
    server: 's',
    release: {
      id: 'dep_1',
      appId: 'app_1',
      appNumber: 1,
      projectId: 'proj_1',
      internalName: null,
      limits: { memoryBytes: 1_000_000, cpus: 1, diskBytes: 8e9 },
      variables: {},
    },
    image: 'shop',
    config: null,
    command: { argv: ['serve'] },
    port: 8080,
    network: networkOfContainer('c', []),
    labels: {},
    dialogue: null,
  })
  expect(specification).toMatchObject({ HostConfig: { OomScoreAdj: 500 } })
})

it('the end of a container before its watch is noticed, though the engine was too busy to list the container', async () => {
  const never = new Promise<never>(() => undefined)
  const list = vi.fn(async () => []).mockRejectedValueOnce(new EngineError('GET containers/json', null, noAnswer))
  const watch = createExitWatch({
    engine: { open: () => never } as never,
    containers: { list, inspect: () => never },
    server: 's',
    written: async () => undefined,
    onUnhealthy: () => undefined,
    logger: { warn: () => undefined, info: () => undefined },
  })
  const onExit = vi.fn()
  watch.add('c', onExit)
  await vi.waitFor(() => expect(onExit).toHaveBeenCalledOnce(), 10_000)
  watch.close()
})

it('the end of a container that is noticed several times is reported once', async () => {
  const written = Promise.withResolvers<void>()
  const never = new Promise<never>(() => undefined)
  const watch = createExitWatch({
    engine: { open: () => never } as never,
    containers: { list: async () => [], inspect: () => never },
    server: 's',
    written: () => written.promise,
    onUnhealthy: () => undefined,
    logger: { warn: () => undefined, info: () => undefined },
  })
  const [first, second, late] = [vi.fn(), vi.fn(), vi.fn()]
  // Each added watch checks for the end.
  for (const onExit of [first, second]) watch.add('c', onExit)
  // Lets both checks reach the output that is being written.
  await new Promise(setImmediate)
  written.resolve()
  await expect.poll(() => second.mock.calls.length).toBeGreaterThan(0)
  watch.add('c', late)
  await expect.poll(() => late.mock.calls.length).toBeGreaterThan(0)
  for (const onExit of [first, second, late]) expect(onExit).toHaveBeenCalledOnce()
  watch.close()
})
