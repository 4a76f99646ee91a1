import { randomUUID } from 'node:crypto'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { createDockerRuntime, type DockerRuntime } from '../../../../server/src/runtimes/docker/docker-runtime.ts'
import { nameImage } from '../../../../server/src/runtimes/docker/images.ts'
import { imageOf } from '../../../../server/src/runtimes/docker/names.ts'
import type { HostNetwork } from '../../../../server/src/runtimes/docker/network/host-network.ts'
import type { Reach } from '../../../../server/src/runtimes/network/reach.ts'
import type { Builder, ReleaseRef } from '../../../../server/src/runtimes/runtime.ts'
import { baseImage, type DockerdOptions, importBaseImage, startDockerd, type TestDockerd } from '../../docker.ts'
import { noReach } from '../../networks.ts'
import { conformingApp } from '../conformance.ts'
import { openBridges } from './bridges.ts'

/** A separate engine with runtimes, whose releases come from an image with the conforming app. */
export interface DockerBench extends AsyncDisposable {
  readonly dockerd: TestDockerd
  readonly server: string
  newRuntime(): DockerRuntime
  makeImage(release: ReleaseRef): Promise<void>
}

/** @param options.node false for an image without Node, which starts no app */
export async function createDockerBench({
  reach = noReach,
  node,
  ...options
}: DockerdOptions & { readonly reach?: Reach; readonly node?: boolean } = {}): Promise<DockerBench> {
  await using cleanup = new AsyncDisposableStack()
  const dockerd = await startDockerd(options)
  let host: HostNetwork | null = null
  cleanup.defer(async () => {
    await dockerd[Symbol.asyncDispose]()
    await host?.remove()
  })
  const { engine, directory } = dockerd
  await importBaseImage(engine, { 'app.js': conformingApp }, node === false ? { others: ['dash', 'cat'] } : {})
  const server = randomUUID()
  const bridges = await openBridges(engine, server, reach, directory)
  host = bridges.host
  const { networks } = bridges
  const made: DockerRuntime[] = []
  cleanup.defer(async () => void (await Promise.all(made.map(({ close }) => close()))))
  const owned = cleanup.move()
  return {
    dockerd,
    server,
    newRuntime() {
      const one = createDockerRuntime({
        ...{ engine, server, folders: { containers: join(directory, 'outputs'), apps: join(directory, 'apps') } },
        capabilities: { warning: null, terminal: true, copies: true, details: {} },
        networks,
        images: null,
        builds: null,
        sources: { ...createFolders(join(directory, 'sources')), built: null },
        logger: { info: () => undefined, warn: (...said: unknown[]) => console.error(...said) },
        fence: () => undefined,
      })
      made.push(one)
      return one
    },
    makeImage: (release) => nameImage(engine, baseImage, imageOf(server, release)),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

/** Only keeps sources in folders. */
function createFolders(directory: string): Pick<Builder, 'prepare' | 'seal' | 'isBuilding'> {
  return {
    async prepare({ id }) {
      const folder = join(directory, id, randomUUID())
      await mkdir(folder, { recursive: true })
      return folder
    },
    seal: async () => undefined,
    isBuilding: () => false,
  }
}
