import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { ticksPerSecond } from '../../server/src/platform/processes.ts'
import { repository } from '../harness/repository.ts'
import { type Platform, startPlatform } from './platform.ts'
import type { Bench } from './row.ts'

const full = {
  apps: Number(process.env['BENCH_IDLE_APPS'] ?? 200),
  /** Time after the last deployment until all of its follow-up work is over. */
  settlingSeconds: 60,
  /** Long enough for each periodic check. The disk usage of 200 apps is checked every minute or less often. */
  measuredSeconds: 180,
}
const brief: typeof full = { apps: 2, settlingSeconds: 0, measuredSeconds: 1 }
const aimPercent = 3
/** Concurrent deployments. */
const lanes = 4

/** Measures the CPU time of a server and its gateway while the apps are idle, from /proc/PID/stat. */
export const benchIdle: Bench = async ({ signal, short }) => {
  const { apps, settlingSeconds, measuredSeconds } = short ? brief : full
  await using platform = await startPlatform({ FAIRLEAD_STABLE_TIME: '0.1' }, signal)
  await deployApps(platform, apps, signal)
  await sleep(settlingSeconds * 1000, undefined, { signal })
  const before = await cpuSecondsOf(platform)
  const startedAt = performance.now()
  await sleep(measuredSeconds * 1000, undefined, { signal })
  const seconds = (performance.now() - startedAt) / 1000
  const percent = (((await cpuSecondsOf(platform)) - before) / seconds) * 100
  return {
    rows: [
      {
        name: `idle: CPU with ${apps} static apps`,
        measured: `${percent.toFixed(1)} %`,
        aim: { text: `≤ ${aimPercent} %`, met: percent <= aimPercent },
      },
    ],
    notes: [
      `Idle: CPU time of the processes of the server and the gateway, of one core, over ${measuredSeconds} s. BENCH_IDLE_APPS sets the number of apps.`,
    ],
  }
}

async function deployApps({ client, deploy }: Platform, apps: number, signal: AbortSignal): Promise<void> {
  await using source = await repository({ 'index.html': 'idle' })
  const appsOfProject = 100
  for (let first = 0; first < apps; first += appsOfProject) {
    const project = await client.projects.create({ body: { name: `Idle ${first}`, plan: 'enterprise' } })
    let next = first
    const deployNext = async () => {
      while (next < Math.min(apps, first + appsOfProject)) {
        signal.throwIfAborted()
        const name = `idle ${next++}`
        await deploy({ name, git_url: source.url }, project.id)
      }
    }
    await Promise.all(Array.from({ length: lanes }, deployNext))
  }
}

async function cpuSecondsOf({ server, dataDirectory }: Platform): Promise<number> {
  const gateway = JSON.parse(await readFile(join(dataDirectory, 'gateway', 'gateway.json'), 'utf8')) as { pid: number }
  const both = await Promise.all([cpuSecondsOfProcess(server.child.pid), cpuSecondsOfProcess(gateway.pid)])
  return both[0] + both[1]
}

/** Without the children, which are builds and apps: fields 14 and 15 of proc(5). Field 3 follows the name. */
async function cpuSecondsOfProcess(pid: number | undefined): Promise<number> {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8')
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[11]) + Number(fields[12])) / ticksPerSecond
}
