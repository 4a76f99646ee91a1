import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { deployAndSettle, settled } from '../harness/deployments.ts'
import { baseImage, importBaseImage, noDocker, startDockerd } from '../harness/docker.ts'
import { type Repository, repository } from '../harness/repository.ts'
import { type Platform, startPlatform } from './platform.ts'
import type { Bench, BenchResult, Row } from './row.ts'
import { median } from './statistics.ts'
import { steadyP99 } from './steady.ts'

/*
 * The response times of an app while another one builds: a process beside a build of the process runtime, and a container beside the
 * build of a Dockerfile. The build keeps all cores busy; a further one takes all memory that it gets.
 */

const rounds = 5
/** Long enough that a hundredth of the requests is more than a few: single late ones are those of the machine. */
const roundSeconds = 10
/** Few enough that the app itself is far from busy. */
const perSecond = 100
const mostRatio = 1.5
const buildMemoryMb = 400

const runtimes = ['process', 'docker'] as const
type RuntimeName = (typeof runtimes)[number]

/** Keeps each core busy until it is canceled. */
const busy = `const { Worker, isMainThread } = require('node:worker_threads')
  if (isMainThread) {
    console.log('the build is busy')
    for (const _ of require('node:os').cpus()) new Worker(__filename)
  } else for (let hash = ''; ; ) hash = require('node:crypto').createHash('sha256').update(hash + 'x'.repeat(1000)).digest('hex')\n`
/** Takes memory until it is ended. */
const greedy = `const held = []
  console.log('the build is greedy')
  setInterval(() => held.push(Buffer.alloc(16e6, 1)), 5)\n`

const app = `require('node:http').createServer((request, response) => response.end('Hello')).listen(process.env.PORT)\n`

/** The files of an app in a runtime, whose build runs a script. */
const files = (runtime: RuntimeName, build: string | null): Record<string, string> => ({
  'server.js': app,
  ...(build === null ? {} : { 'build.js': build }),
  ...(runtime === 'docker'
    ? {
        Dockerfile: `FROM ${baseImage}\nCOPY . .\n${build === null ? '' : 'RUN node build.js\n'}CMD ["node", "server.js"]\n`,
      }
    : {
        'package.json': JSON.stringify({
          scripts: { start: 'node server.js', ...(build === null ? {} : { build: 'node build.js' }) },
        }),
      }),
})

interface Measured {
  readonly name: RuntimeName
  readonly idle: number[]
  readonly beside: number[]
  /** How the greedy build ended, and how much the free memory of the machine fell meanwhile. */
  readonly greedy: { readonly code: string; readonly fellMb: number; readonly p99Ms: number }
}

export const benchBesideBuild: Bench = async (signal) => {
  const why = await noDocker()
  if (why !== null) return { rows: [], notes: [`apps beside builds: not measured, ${why}`] }
  await using dockerd = await startDockerd()
  await importBaseImage(dockerd.engine)
  await using platform = await startPlatform({
    DOCKER_HOST: dockerd.host,
    FAIRLEAD_BASE_IMAGES: baseImage,
    FAIRLEAD_BUILD_MEMORY_MB: String(buildMemoryMb),
  })
  const measured: Measured[] = []
  for (const name of runtimes) measured.push(await measure(platform, name, signal))
  return result(measured)
}

async function measure(platform: Platform, name: RuntimeName, signal: AbortSignal): Promise<Measured> {
  const { client, projectId } = platform
  await using source = await repository(files(name, null))
  const made = await deployAndSettle(client, projectId, { name: `${name}-app`, git_url: source.url })
  if (made.status !== 'running') throw new Error(`the app is ${made.status}: ${made.failure?.message}`)
  const round = () => steadyP99(made.url, { perSecond, seconds: roundSeconds, signal })
  await round()
  const idle: number[] = []
  const beside: number[] = []
  await using other = await repository(files(name, busy))
  for (let each = 0; each < rounds; each++) {
    // In turns, so that other load on the machine affects both alike.
    const measureIdle = async () => void idle.push(await round())
    const measureBeside = async () => {
      await using _ = await busyBuild(platform, name, other, signal)
      beside.push(await round())
    }
    for (const one of each % 2 === 0 ? [measureIdle, measureBeside] : [measureBeside, measureIdle]) await one()
  }
  return { name, idle, beside, greedy: await greedyBuild(platform, name, round) }
}

/** Starts a build; resolves when it is busy. At the end it is canceled, and over. */
async function busyBuild(
  { client, projectId }: Platform,
  name: RuntimeName,
  source: Repository,
  signal: AbortSignal,
): Promise<AsyncDisposable> {
  const { id } = await client.deployments.create({
    params: { project_id: projectId },
    body: { name: `${name}-built`, git_url: source.url },
  })
  const params = { project_id: projectId, id }
  for (;;) {
    const log = await (await client.deployments.logs({ params, query: { stream: 'build' } })).text()
    if (log.includes('the build is busy')) break
    const { status, failure } = await client.deployments.get({ params })
    if (status !== 'building') throw new Error(`the build is ${status}: ${failure?.message}`)
    await sleep(100, undefined, { signal })
  }
  return {
    async [Symbol.asyncDispose]() {
      await client.deployments.cancel({ params })
      await settled(client, projectId, id)
      // Its files and its engine are still being removed.
      await sleep(1_000)
    },
  }
}

/** Measures beside a build that takes all memory that it gets. */
async function greedyBuild(
  { client, projectId }: Platform,
  name: RuntimeName,
  round: () => Promise<number>,
): Promise<Measured['greedy']> {
  await using source = await repository(files(name, greedy))
  const before = await availableMb()
  let least = before
  const ended = deployAndSettle(client, projectId, { name: `${name}-greedy`, git_url: source.url })
  const over = new AbortController()
  const watching = (async () => {
    while (!over.signal.aborted) {
      least = Math.min(least, await availableMb())
      await sleep(20)
    }
  })()
  const [{ failure }, p99Ms] = await Promise.all([ended, round()])
  over.abort()
  await watching
  return { code: failure?.code ?? 'none', fellMb: Math.max(0, before - least), p99Ms }
}

async function availableMb(): Promise<number> {
  const [, kilobytes = '0'] = /^MemAvailable:\s+(\d+)/m.exec(await readFile('/proc/meminfo', 'utf8')) ?? []
  return Math.round((Number(kilobytes) * 1024) / 1e6)
}

function result(measured: readonly Measured[]): BenchResult {
  const rows = measured.flatMap(({ name, idle, beside, greedy }): Row[] => {
    const ratio = median(beside) / median(idle)
    return [
      {
        name: `${name} beside a build: p99`,
        measured: `${ratio.toFixed(2)} of idle`,
        aim: { text: `≤ ${mostRatio}`, met: ratio <= mostRatio },
      },
      {
        name: `${name}: a build that takes all memory`,
        measured: greedy.code,
        aim: { text: 'out_of_memory', met: greedy.code === 'out_of_memory' },
      },
    ]
  })
  const texts = (values: readonly number[]) => values.map((each) => each.toFixed(1)).join(' ')
  const notes = measured.flatMap(({ name, idle, beside, greedy }) => [
    `${name}: p99 in ms while idle ${texts(idle)}; beside a build ${texts(beside)}; beside the greedy build ${greedy.p99Ms.toFixed(1)}, ` +
      `while the free memory of the machine fell by ${greedy.fellMb} MB of the ${buildMemoryMb} MB of a build.`,
  ])
  return {
    rows,
    notes: [
      `Beside a build: ${rounds} rounds in turns of ${roundSeconds} s, ${perSecond} requests/s at an even pace; medians of p99.`,
      ...notes,
    ],
  }
}
