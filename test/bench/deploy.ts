import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { buildEnvironment } from '../harness/environment.ts'
import { untilAlone } from '../harness/releases.ts'
import { repository } from '../harness/repository.ts'
import { temporaryDirectory } from '../harness/temporary.ts'
import { type ByHandTimes, deployByHand } from './by-hand.ts'
import { filesIn } from './files-in.ts'
import { type Platform, startPlatform } from './platform.ts'
import { type Bench, columns } from './row.ts'
import { median } from './statistics.ts'

const aim = 1.3
const full = {
  pairs: 7,
  rollbacks: 6,
  idleApps: 10,
  /** Idle time before the memory is read. */
  idleSeconds: 15,
}
const brief: typeof full = { pairs: 1, rollbacks: 1, idleApps: 2, idleSeconds: 0 }
const rollbackAimMs = 2_000
const idleAimMb = 150
/**
 * The default of FAIRLEAD_STABLE_TIME in seconds. Subtracted, because the deployment by hand has no stability check.
 */
const stableSeconds = 1

/** An app without packages, which needs no registry. */
const plainApp = {
  'package.json': JSON.stringify({ name: 'plain', version: '1.0.0', scripts: { start: 'node server.js' } }),
  'package-lock.json': JSON.stringify({
    name: 'plain',
    version: '1.0.0',
    lockfileVersion: 3,
    packages: { '': { name: 'plain', version: '1.0.0' } },
  }),
  'server.js': `require('node:http').createServer((request, response) => response.end('Hello'))
  .listen(process.env.PORT, () => console.log('listening'))
`,
}
const appFolder = fileURLToPath(new URL('../fixtures/apps/express', import.meta.url))

/**
 * Measures deployments of an Express app with a lock file until the first response, by Fairlead and by hand in turns.
 */
export const benchDeploy: Bench = async ({ signal, short }) => {
  const { pairs, rollbacks, idleApps, idleSeconds } = short ? brief : full
  await using platform = await startPlatform({ FAIRLEAD_STABLE_TIME: String(stableSeconds) }, signal)
  await using source = await repository(short ? plainApp : await filesIn(appFolder))
  await using home = await temporaryDirectory()
  const environment = buildEnvironment()
  const byHand = () => deployByHand({ url: source.url, home: home.path, environment, signal })
  const byFairlead = () => deployByFairlead(platform, source.url)

  // Fills both npm caches and the system's caches. The rollbacks need two releases.
  if (!short) await byHand()
  await byFairlead()
  const hand: ByHandTimes[] = []
  const fairlead: FairleadTimes[] = []
  for (let pair = 0; pair < pairs; pair++) {
    hand.push(await byHand())
    fairlead.push(await byFairlead())
  }

  const rollback = await timeRollbacks(platform, rollbacks, signal)
  await using small = await repository(plainApp)
  const idleMb = await measureIdleMemory(platform, small.url, { apps: idleApps, seconds: idleSeconds, signal })

  const ratios = hand.map(({ total }, pair) => (fairlead[pair]?.total ?? Number.NaN) / total)
  const ratio = median(ratios)
  return {
    rows: [
      {
        name: 'deploy: Express, against by hand',
        measured: `${ratio.toFixed(2)} ×`,
        aim: { text: `≤ ${aim}`, met: ratio <= aim },
      },
      {
        name: 'deploy: rollback, slowest',
        measured: `${(Math.max(...rollback) / 1000).toFixed(2)} s`,
        aim: { text: `≤ ${rollbackAimMs / 1000} s`, met: Math.max(...rollback) <= rollbackAimMs },
      },
      {
        name: `deploy: idle server with ${idleApps} apps`,
        measured: `${Math.round(idleMb)} MB`,
        aim: { text: `≤ ${idleAimMb} MB`, met: idleMb <= idleAimMb },
      },
    ],
    notes: [
      `Median of ${pairs} pairs in turns (${ratios.map((each) => each.toFixed(2)).join(', ')}), caches warm. ` +
        `Fairlead's stability window of ${stableSeconds} s is taken off. Steps in medians:`,
      ...breakdown(hand, fairlead),
      `Rollbacks: ${rollback.map((each) => `${(each / 1000).toFixed(2)} s`).join(', ')}, each with a new process. ` +
        'Memory: the resident memory of the server process, without apps and PostgreSQL.',
    ],
  }
}

/** Times in milliseconds. `healthy` and `total` do not include the stability window. */
interface FairleadTimes {
  /** From the request to the start of the deploy job. */
  readonly accept: number
  /** Fetching the code and planning the build. */
  readonly fetch: number
  readonly install: number
  /** From the start of the app to the line in its log that it is listening. */
  readonly start: number
  /** From there to `running`: the health check, the switch and its confirmation. */
  readonly healthy: number
  /** From `running` in the server's log to the API's response with this status. */
  readonly notice: number
  readonly total: number
}

const settledMessages: ReadonlySet<unknown> = new Set([
  'deployment runs',
  'deployment failed',
  'deployment failed by an error of the server',
])

async function deployByFairlead(platform: Platform, url: string): Promise<FairleadTimes> {
  const { client, projectId, server, dataDirectory } = platform
  const params = { project_id: projectId }
  // The wall clock, like the times in the log and of the files.
  const createdAt = Date.now()
  const begin = performance.now()
  const { id } = await client.deployments.create({ params, body: { name: 'express', git_url: url } })
  // Watches the server's log, because polling the API would slow down the deployment on a small machine.
  await server.waitForLog((line) => settledMessages.has(line['msg']) && line['deployment'] === id)
  const { status, failure } = await client.deployments.get({ params: { ...params, id } })
  if (status !== 'running') throw new Error(`the deployment is ${status}: ${failure?.message}`)
  const elapsed = performance.now() - begin

  const logged = (message: string) => {
    const line = server.log.find((each) => each['msg'] === message && each['deployment'] === id)
    return Date.parse(String(line?.['time']))
  }
  const [begun, running] = [logged('deployment begins'), logged('deployment runs')]
  const folder = await logFolderOf(dataDirectory, id)
  const [build, app] = await Promise.all(['build.log', 'runtime.log'].map((name) => stat(join(folder, name))))
  if (build === undefined || app === undefined) throw new Error('the release has no logs')
  // Ensures that the next measurement starts on an idle machine.
  await untilAlone(dataDirectory, id)
  const stableMs = stableSeconds * 1000
  return {
    accept: begun - createdAt,
    fetch: build.birthtimeMs - begun,
    install: app.birthtimeMs - build.birthtimeMs,
    start: app.mtimeMs - app.birthtimeMs,
    healthy: running - app.mtimeMs - stableMs,
    notice: createdAt + elapsed - running,
    total: elapsed - stableMs,
  }
}

async function logFolderOf(dataDirectory: string, id: string): Promise<string> {
  const logs = join(dataDirectory, 'logs')
  const folders = await readdir(logs, { recursive: true })
  return join(logs, folders.find((folder) => folder.endsWith(id)) ?? '')
}

/** Measures rollbacks from the request to `running`, back and forth between two releases. */
async function timeRollbacks(platform: Platform, rollbacks: number, signal: AbortSignal): Promise<number[]> {
  const { client, projectId, server, dataDirectory } = platform
  const params = { project_id: projectId }
  const { deployments } = await client.deployments.list({ params })
  const ids = deployments
    .slice(0, 2)
    .map(({ id }) => id)
    .reverse()
  const times: number[] = []
  for (let round = 0; round < rollbacks; round++) {
    signal.throwIfAborted()
    const id = String(ids[round % 2])
    const logged = server.log.length
    const begin = performance.now()
    await client.deployments.rollback({ params: { ...params, id } })
    const runs = (line: Record<string, unknown>) => line['msg'] === 'deployment runs' && line['deployment'] === id
    await server.waitForLog((line) => runs(line) && server.log.indexOf(line) >= logged)
    const { status } = await client.deployments.get({ params: { ...params, id } })
    if (status !== 'running') throw new Error(`the rollback to ${id} is ${status}`)
    times.push(performance.now() - begin)
    // The previous process has to end, so that every rollback starts a new one.
    await untilAlone(dataDirectory, id)
  }
  return times
}

/** Resolves to the server's resident memory in MB after some idle seconds with this many running apps. */
async function measureIdleMemory(
  platform: Platform,
  url: string,
  { apps, seconds, signal }: { readonly apps: number; readonly seconds: number; readonly signal: AbortSignal },
): Promise<number> {
  const { client, server } = platform
  const project = await client.projects.create({ body: { name: 'Idle', plan: 'enterprise' } })
  for (let app = 0; app < apps - 1; app++) await platform.deploy({ name: `idle ${app}`, git_url: url }, project.id)
  await sleep(seconds * 1000, undefined, { signal })
  const status = await readFile(`/proc/${server.child.pid}/status`, 'utf8')
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]) / 1024
}

/** Returns a table with the median time of each step. */
function breakdown(hand: readonly ByHandTimes[], fairlead: readonly FairleadTimes[]): string[] {
  const byHand = (step: keyof ByHandTimes) => `${Math.round(median(hand.map((times) => times[step])))} ms`
  const ours = (step: keyof FairleadTimes) => `${Math.round(median(fairlead.map((times) => times[step])))} ms`
  const lines = [
    ['step', 'by hand', 'Fairlead'],
    ['accept', '-', ours('accept')],
    ['clone', byHand('clone'), ours('fetch')],
    ['npm ci', byHand('install'), ours('install')],
    ['start', byHand('start'), ours('start')],
    ['health, switch', '-', ours('healthy')],
    ['notice', '-', ours('notice')],
    ['total', byHand('total'), ours('total')],
  ]
  return columns(lines).split('\n')
}
