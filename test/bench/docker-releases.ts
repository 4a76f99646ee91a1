import { pushShop, startAsking } from '../harness/container-app.ts'
import { startDockerd } from '../harness/docker.ts'
import { startRegistry } from '../harness/registry.ts'
import { inTime } from './deadline.ts'
import { startPlatform } from './platform.ts'
import type { Bench } from './row.ts'

const full = { releases: 50 }
const brief: typeof full = { releases: 1 }

/** Measures fifty releases of an app of an image under load, on a separate Docker engine. */
export const benchDockerReleases: Bench = async ({ signal, short }) => {
  const { releases } = short ? brief : full
  await using dockerd = await startDockerd()
  await using registry = await inTime('registry', signal, startRegistry())
  await inTime('image in the registry', signal, pushShop(dockerd, registry))
  await using platform = await startPlatform({ FAIRLEAD_DRAIN_TIMEOUT: '2', DOCKER_HOST: dockerd.host }, signal)
  const release = (number: number) =>
    platform.deploy({ name: 'shop', image: `${registry.host}/shop:${1 + (number % 2)}` })
  const { url } = await release(0)
  const asking = startAsking(url)
  const startedAt = performance.now()
  try {
    for (let number = 1; number <= releases; number += 1) {
      signal.throwIfAborted()
      await release(number)
    }
  } finally {
    await inTime('end of the load', signal, asking.stop())
  }
  const seconds = (performance.now() - startedAt) / 1000
  const all = asking.answered + asking.failed.length
  return {
    rows: [
      {
        name: 'releases of images: failed requests',
        measured: `${asking.failed.length} of ${all}`,
        aim: { text: '0', met: asking.failed.length === 0 },
      },
      { name: 'releases of images: time of each', measured: `${(seconds / releases).toFixed(2)} s` },
    ],
    notes: [
      `${releases} releases of images in ${seconds.toFixed(1)} s under ${Math.round(all / seconds)} requests/s.`,
      ...asking.failed.map(String).slice(0, 10),
    ],
  }
}
