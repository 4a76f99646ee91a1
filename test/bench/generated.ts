import { setTimeout as sleep } from 'node:timers/promises'
import { startDockerd } from '../harness/docker.ts'
import { importSystem, systemBase } from '../harness/docker-system.ts'
import { nodeApp, repository } from '../harness/repository.ts'
import { inTime } from './deadline.ts'
import { type Platform, startPlatform } from './platform.ts'
import { restartMs } from './restart.ts'
import type { Bench } from './row.ts'
import { median } from './statistics.ts'

const full = { rounds: 7 }
const brief: typeof full = { rounds: 1 }

/** An app on a separate platform. */
interface Target {
  readonly platform: Platform
  readonly name: string
  readonly url: string
  readonly restartMs: number[]
  readonly deployMs: number[]
  id: string
}

/** Measures the same app in turns: as a process, and in a container of an image that the server has generated. */
export const benchGenerated: Bench = async ({ signal, short }) => {
  const { rounds } = short ? brief : full
  await using stack = new AsyncDisposableStack()
  const dockerd = stack.use(await startDockerd())
  await inTime('image of the system', signal, importSystem(dockerd))
  const source = stack.use(await repository(nodeApp('Hello')))
  const docker = { FAIRLEAD_RUNTIME: 'docker', DOCKER_HOST: dockerd.host, FAIRLEAD_DOCKER_BASE: systemBase }
  const start = async (name: string, environment: Record<string, string>): Promise<Target> => {
    const platform = stack.use(await startPlatform({ FAIRLEAD_STABLE_TIME: '0', ...environment }, signal))
    return { platform, name, ...(await deploy(platform, source.url)), restartMs: [], deployMs: [] }
  }
  const targets = [await start('process', {}), await start('container', docker)]
  for (let round = 0; round < rounds; round += 1) {
    for (const target of round % 2 === 0 ? targets : targets.toReversed()) {
      signal.throwIfAborted()
      const begun = performance.now()
      Object.assign(target, await deploy(target.platform, source.url))
      target.deployMs.push(performance.now() - begun)
      target.restartMs.push(await restartMs(target, signal))
    }
  }
  const memory = await inTime(
    'measurement of the memory',
    signal,
    Promise.all(targets.map((target) => memoryOf(target, signal))),
  )
  const both = (of: (target: Target, at: number) => string) => targets.map(of).join(' and ')
  return {
    rows: [
      { name: 'process and container: deploy', measured: both(({ deployMs }) => milliseconds(deployMs)) },
      { name: 'process and container: restart', measured: both(({ restartMs }) => milliseconds(restartMs)) },
      {
        name: 'process and container: memory',
        measured: both((_, at) => `${((memory[at] ?? 0) / 1e6).toFixed(1)} MB`),
      },
    ],
    notes: [
      `Processes and containers: medians of ${rounds} rounds in turns, each a deployment and a restart of one app.`,
    ],
  }
}

const milliseconds = (all: readonly number[]): string => `${Math.round(median(all))} ms`

async function deploy(platform: Platform, url: string): Promise<{ id: string; url: string }> {
  const made = await platform.deploy({ name: 'web', git_url: url })
  return { id: made.id, url: made.url }
}

/** Returns the bytes of the instance at the next measurement. */
async function memoryOf({ platform: { client, projectId }, url }: Target, signal: AbortSignal): Promise<number> {
  await (await fetch(url)).text()
  const { apps } = await client.apps.list({ params: { project_id: projectId } })
  const params = { project_id: projectId, app_id: apps[0]?.id ?? '' }
  for (;;) {
    const { processes } = await client.processes.list({ params })
    const usage = processes[0]?.running[0]?.usage
    if (usage) return usage.memory_bytes
    await sleep(500, undefined, { signal })
  }
}
