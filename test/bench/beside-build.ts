import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { deployAndSettle, settled } from '../harness/deployments.ts'
import { baseImage, importBaseImage, startDockerd } from '../harness/docker.ts'
import { type Repository, repository } from '../harness/repository.ts'
import { inTime } from './deadline.ts'
import { type Platform, startPlatform } from './platform.ts'
import type { Bench, BenchResult, Row } from './row.ts'
import { quantile } from './statistics.ts'
import { timesAtPace } from './steady.ts'

/*
 * The response times of an app during the build of another app: a process beside a build of the process runtime, and a
 * container beside the build of a Dockerfile. The build keeps all cores busy; a second build takes all available
 * memory.
 */

const full = { rounds: 15, roundSeconds: 10 }
const brief: typeof full = { rounds: 1, roundSeconds: 1 }
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
/** Takes the place of the busy build in a short round, beside which other tests run. */
const calm = "console.log('the build is busy')\nsetInterval(() => {}, 1_000)\n"
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

/** Response times are in milliseconds, one list for each round. */
interface Measured {
  readonly name: RuntimeName
  readonly idle: number[][]
  readonly beside: number[][]
  /** The end of the greedy build, and the fall of the machine's free memory during it. */
  readonly greedy: { readonly code: string; readonly fellMb: number; readonly p99Ms: number }
}

export const benchBesideBuild: Bench = async ({ signal, short }) => {
  const { rounds, roundSeconds } = short ? brief : full
  await using dockerd = await startDockerd()
  await inTime('base image', signal, importBaseImage(dockerd.engine))
  const settings = {
    DOCKER_HOST: dockerd.host,
    FAIRLEAD_BASE_IMAGES: baseImage,
    FAIRLEAD_BUILD_MEMORY_MB: String(buildMemoryMb),
  }
  await using platform = await startPlatform(settings, signal)
  await using sources = new AsyncDisposableStack()
  const apps: App[] = []
  for (const name of runtimes)
    apps.push(await deployApp(platform, name, sources, { build: short ? calm : busy, roundSeconds, signal }))
  for (let each = 0; each < rounds; each++) {
    // Alternating, because other load on the machine, and programs that become faster as they run, then affect all
    // alike.
    const turns = apps.flatMap((app) => {
      const idle = async () => void app.idle.push(await app.round())
      const beside = async () => {
        await using _ = await busyBuild(platform, app.name, app.busy, signal)
        app.beside.push(await app.round())
      }
      return [idle, beside]
    })
    for (const measure of each % 2 === 0 ? turns : turns.reverse()) await measure()
  }
  const measured: Measured[] = []
  for (const { name, idle, beside, round } of apps) {
    measured.push({ name, idle, beside, greedy: await greedyBuild(platform, name, round, signal) })
  }
  return result(measured, { rounds, roundSeconds })
}

/** A running app that has answered for a while. */
interface App extends Omit<Measured, 'greedy'> {
  /** The repository of the app that is built beside it. */
  readonly busy: Repository
  round(): Promise<number[]>
}

async function deployApp(
  platform: Platform,
  name: RuntimeName,
  sources: AsyncDisposableStack,
  {
    build,
    roundSeconds,
    signal,
  }: { readonly build: string; readonly roundSeconds: number; readonly signal: AbortSignal },
): Promise<App> {
  const source = sources.use(await repository(files(name, null)))
  const made = await platform.deploy({ name: `${name}-app`, git_url: source.url })
  const round = () => timesAtPace(made.url, { perSecond, seconds: roundSeconds, signal })
  await round()
  return { name, idle: [], beside: [], busy: sources.use(await repository(files(name, build))), round }
}

/** Starts a build; resolves when it is busy. At the end it is canceled completely. */
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
  const busy = async () => {
    for (;;) {
      const log = await (await client.deployments.logs({ params, query: { stream: 'build' } })).text()
      if (log.includes('the build is busy')) return
      const { status, failure } = await client.deployments.get({ params })
      if (status !== 'building') throw new Error(`the build is ${status}: ${failure?.message}`)
      await sleep(100, undefined, { signal })
    }
  }
  await inTime('build that is busy', signal, busy())
  return {
    async [Symbol.asyncDispose]() {
      await client.deployments.cancel({ params })
      await inTime('end of a build that was canceled', signal, settled(client, projectId, id))
      // Its files and its engine are still being removed.
      await sleep(1_000)
    },
  }
}

/** Measures beside a build that takes all available memory. */
async function greedyBuild(
  { client, projectId }: Platform,
  name: RuntimeName,
  round: () => Promise<number[]>,
  signal: AbortSignal,
): Promise<Measured['greedy']> {
  await using source = await repository(files(name, greedy))
  const before = await availableMb()
  let least = before
  const build = deployAndSettle(client, projectId, { name: `${name}-greedy`, git_url: source.url })
  const ended = inTime('end of a build that takes all memory', signal, build)
  const over = new AbortController()
  const watching = (async () => {
    while (!over.signal.aborted) {
      least = Math.min(least, await availableMb())
      await sleep(20)
    }
  })()
  const [{ failure }, times] = await Promise.all([ended, round()]).finally(() => over.abort())
  await watching
  return { code: failure?.code ?? 'none', fellMb: Math.max(0, before - least), p99Ms: p99(times) }
}

async function availableMb(): Promise<number> {
  const [, kilobytes = '0'] = /^MemAvailable:\s+(\d+)/m.exec(await readFile('/proc/meminfo', 'utf8')) ?? []
  return Math.round((Number(kilobytes) * 1024) / 1e6)
}

const p99 = (times: readonly number[]) => quantile(times, 0.99)

function result(measured: readonly Measured[], { rounds, roundSeconds }: typeof full): BenchResult {
  const rows = measured.flatMap(({ name, idle, beside, greedy }): Row[] => {
    const ratio = p99(beside.flat()) / p99(idle.flat())
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
  const texts = (times: readonly number[][]) => times.map((each) => p99(each).toFixed(1)).join(' ')
  const notes = measured.flatMap(({ name, idle, beside, greedy }) => [
    `${name}: p99 in ms while idle ${p99(idle.flat()).toFixed(2)}, of each round ${texts(idle)}; ` +
      `beside a build ${p99(beside.flat()).toFixed(2)}, of each round ${texts(beside)}; ` +
      `beside the greedy build ${greedy.p99Ms.toFixed(1)}, ` +
      `while the free memory of the machine fell by ${greedy.fellMb} MB of the ${buildMemoryMb} MB of a build.`,
  ])
  return {
    rows,
    notes: [
      `Beside a build: ${rounds} rounds in turns of ${roundSeconds} s, ${perSecond} requests/s at an even pace; p99 of all of them.`,
      ...notes,
    ],
  }
}
