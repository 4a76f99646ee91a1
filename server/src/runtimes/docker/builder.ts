import type { FileHandle } from 'node:fs/promises'
import { Readable, Writable } from 'node:stream'
import { createKeyedLock } from '../../platform/keyed-lock.ts'
import type { Builder, Release } from '../runtime.ts'
import { type AttachParts, runInContainer } from './containers/attach.ts'
import { nameImage } from './images/name-image.ts'
import { imageOf, unitLabel } from './names.ts'
import type { ContainerNetworks } from './network/networks.ts'

export interface BuilderParts extends AttachParts {
  readonly networks: Pick<ContainerNetworks, 'join'>
  /** Keeps the sources of images, in folders. */
  readonly sources: Pick<Builder, 'prepare' | 'seal' | 'isBuilding'>
  readonly builds: Pick<Builder, 'isBuilding'> | null
  readonly fence: () => void
}

/**
 * Builds nothing itself: `Images` makes the images of releases from the sources that another builder keeps. The commands of a
 * build run in containers of the finished image, each in one of its own, so that what they write is not kept.
 */
export function createBuilder(parts: BuilderParts): Builder {
  const { engine, server, sources, builds, fence } = parts
  const lock = createKeyedLock()
  const building = new Map<string, number>()
  const count = (appId: string, by: number) => building.set(appId, (building.get(appId) ?? 0) + by)

  return {
    prepare: (release) => sources.prepare(release),
    seal: (release, signal, next) => sources.seal(release, signal, next),

    async copy(from, release, signal) {
      signal.throwIfAborted()
      fence()
      await nameImage(engine, imageOf(server, from), imageOf(server, release))
    },

    async build(release, { output, signal }, steps) {
      count(release.appId, 1)
      const own = new AbortController()
      const running = new Set<Promise<unknown>>()
      try {
        return await lock(
          release.appId,
          () =>
            steps((command, ofCommand) => {
              const limit = AbortSignal.any([signal, ofCommand, own.signal])
              const run = runCommand(parts, release, command, output, limit)
              running.add(run)
              void run.catch(() => undefined).finally(() => running.delete(run))
              return run
            }),
          signal,
        )
      } finally {
        own.abort(new Error('the build is over'))
        await Promise.allSettled(running)
        count(release.appId, -1)
        if (building.get(release.appId) === 0) building.delete(release.appId)
      }
    },

    isBuilding: (appId) => building.has(appId) || sources.isBuilding(appId) || builds?.isBuilding(appId) === true,
  }
}

async function runCommand(
  parts: BuilderParts,
  release: Release,
  command: Parameters<Parameters<Parameters<Builder['build']>[2]>[0]>[0],
  output: Pick<FileHandle, 'appendFile'>,
  signal: AbortSignal,
) {
  signal.throwIfAborted()
  const target = new Writable({
    write: (chunk: Buffer, _, done) => void output.appendFile(chunk).then(() => done(), done),
  })
  const request = { argv: command.argv, tty: null, stdin: Readable.from([]), stdout: target, stderr: target, signal }
  const image = imageOf(parts.server, release)
  const { Config: config = null } = (await parts.containers.image(image)) ?? {}
  const exit = await parts.networks.join(release.projectId, (network) =>
    runInContainer(
      parts,
      {
        ...{ release, command, network, image, config, port: null },
        labels: { [unitLabel]: 'build' },
      },
      request,
      { graceMs: 0 },
    ),
  )
  signal.throwIfAborted()
  return exit
}
