import { pushShop, startAsking } from '../harness/container-app.ts'
import { deployAndSettle } from '../harness/deployments.ts'
import { noDocker, startDockerd } from '../harness/docker.ts'
import { noRegistry, startRegistry } from '../harness/registry.ts'
import { startPlatform } from './platform.ts'
import type { Bench } from './row.ts'

const releases = 50

/** Measures fifty releases of an app of an image under load, on a Docker engine of its own. */
export const benchDockerReleases: Bench = async (signal) => {
  const why = (await noDocker()) ?? (await noRegistry())
  if (why !== null) return { rows: [], notes: [`releases of images: not measured, ${why}`] }
  await using dockerd = await startDockerd()
  await using registry = await startRegistry()
  await pushShop(dockerd, registry)
  await using platform = await startPlatform({ FAIRLEAD_DRAIN_TIMEOUT: '2', DOCKER_HOST: dockerd.host })
  const release = async (number: number) => {
    const image = `${registry.host}/shop:${1 + (number % 2)}`
    const made = await deployAndSettle(platform.client, platform.projectId, { name: 'shop', image })
    if (made.status !== 'running') throw new Error(`release ${number} is ${made.status}: ${made.failure?.message}`)
    return made
  }
  const { url } = await release(0)
  const asking = startAsking(url)
  const startedAt = performance.now()
  try {
    for (let number = 1; number <= releases; number += 1) {
      signal.throwIfAborted()
      await release(number)
    }
  } finally {
    await asking.stop()
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
