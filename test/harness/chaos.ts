import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Client } from '@fairlead/server/client'
import { hangingStart, processesOf } from './deployments.ts'
import { fairlead, type ServerProcess, serverProcess } from './process.ts'
import { testReceiver } from './receiver.ts'
import { releasesOnDisk } from './releases.ts'
import { nodeApp, type Repository, repository } from './repository.ts'
import { temporaryDirectory } from './temporary.ts'

/** The result of all rounds; `problems` is empty when all is well. */
export interface ChaosReport {
  readonly kills: number
  readonly deployments: number
  readonly events: number
  readonly problems: readonly string[]
}

const apps = ['left', 'right'] as const
type AppName = (typeof apps)[number]
/** The server is killed at a random moment of this time after the load of a round begins. */
const longestMs = 3_000
const restTimeoutMs = 120_000

/**
 * Kills the server with SIGKILL at random moments over a mixed load of deployments, and starts it again after each.
 * Checks then that everything comes to rest: nothing stuck, no orphan process or folder, every event delivered, and
 * every address answered by its own app or not at all.
 */
export async function chaos(options: {
  readonly kills: number
  /** Decides the random moments and the load. */
  readonly seed: number
  readonly signal: AbortSignal
  readonly onRound?: (round: number) => void
}): Promise<ChaosReport> {
  await using cleanup = new AsyncDisposableStack()
  const random = randomFrom(options.seed)
  const directory = cleanup.use(await temporaryDirectory())
  const dataDirectory = join(directory.path, 'data')
  const key = (await fairlead(['keys', 'create', '--name', 'chaos', '--data-dir', dataDirectory])).stdout.trim()
  const receiver = cleanup.use(await testReceiver())
  const sources = new Map<string, Repository>()
  for (const app of apps) sources.set(app, cleanup.use(await repository(nodeApp(app))))
  sources.set('broken', cleanup.use(await repository({ 'README.txt': 'nothing to start' })))
  sources.set('hanging', cleanup.use(await repository(hangingStart)))
  sources.set('building', cleanup.use(await repository(slowBuild)))

  const environment = { FAIRLEAD_DRAIN_TIMEOUT: '1', FAIRLEAD_START_TIMEOUT: '4' }
  let server: ServerProcess = await serverProcess(dataDirectory, environment)
  cleanup.defer(() => server[Symbol.asyncDispose]())
  const port = new URL(server.url).port
  const client = server.clientFor(key)
  const project = await client.projects.create({ body: { name: 'chaos' } })
  const params = { project_id: project.id }
  const hook = await client.webhooks.create({ body: { url: receiver.url } })
  receiver.trust(hook.secret)

  const problems: string[] = []
  for (let round = 1; round <= options.kills; round++) {
    options.signal.throwIfAborted()
    options.onRound?.(round)
    const load = putUnderLoad({ client, projectId: project.id, sources, random })
    await sleep(random() * longestMs)
    await server.kill()
    await load
    server = await serverProcess(dataDirectory, { ...environment, FAIRLEAD_PORT: port })
    const found = await untilRest({ client, projectId: project.id, dataDirectory, received: receiver.received })
    problems.push(...found.map((problem) => `after kill ${round}: ${problem}`))
  }
  const { deployments } = await client.deployments.list({ params })
  return {
    kills: options.kills,
    deployments: deployments.length,
    events: new Set(receiver.received.map(({ id }) => id)).size,
    problems,
  }
}

const slowBuild = {
  ...nodeApp('left'),
  'package.json': JSON.stringify({ scripts: { build: 'node build.js', start: 'node server.js' } }),
  'build.js': 'setTimeout(() => {}, 700)',
}

/** Sends some requests of every kind, a few of which the kill cuts off. */
async function putUnderLoad(load: {
  readonly client: Client
  readonly projectId: string
  readonly sources: ReadonlyMap<string, Repository>
  readonly random: () => number
}): Promise<void> {
  const { client, projectId, sources, random } = load
  const params = { project_id: projectId }
  const any = <T>(values: readonly T[]): T => values[Math.floor(random() * values.length)] as T
  const url = (source: string) => String(sources.get(source)?.url)
  const create = (name: AppName, source: string) =>
    client.deployments.create({ params, body: { name, git_url: url(source) }, signal: AbortSignal.timeout(5_000) })
  const sendRequests = async () => {
    await create('right', 'right')
    await create('left', any(['left', 'left', 'building', 'broken', 'hanging']))
    const { deployments } = await client.deployments.list({ params, signal: AbortSignal.timeout(5_000) })
    for (let change = 0; change < 3; change++) {
      await sleep(random() * 400)
      const at = { params: { ...params, id: any(deployments.slice(0, 12)).id }, signal: AbortSignal.timeout(5_000) }
      const verb = any(['cancel', 'rollback', 'restart', 'stop'] as const)
      // Some are refused, since the deployment's state does not allow them.
      await client.deployments[verb](at).catch(() => undefined)
    }
    await create('right', 'right')
  }
  // The server goes away in the middle of it.
  await sendRequests().catch(() => undefined)
}

/** Resolves with the problems that are left when there was time enough to settle. */
async function untilRest(look: {
  readonly client: Client
  readonly projectId: string
  readonly dataDirectory: string
  readonly received: readonly { readonly event: string; readonly data: { readonly deployment_id: string } }[]
}): Promise<string[]> {
  const deadline = performance.now() + restTimeoutMs
  for (;;) {
    const problems = await problemsNow(look)
    if (problems.length === 0 || performance.now() > deadline) return problems
    await sleep(200)
  }
}

async function problemsNow(look: Parameters<typeof untilRest>[0]): Promise<string[]> {
  const { client, projectId } = look
  const { deployments } = await client.deployments.list({ params: { project_id: projectId } })
  const problems: string[] = []
  const folders = new Set((await releasesOnDisk(look.dataDirectory)).map((path) => String(path.split('/').at(-1))))
  const known = new Set(deployments.map(({ id }) => id))
  for (const id of folders) if (!known.has(id)) problems.push(`${id} has files and no deployment`)
  for (const { id, status } of deployments) {
    const processes = await processesOf(id)
    if (status === 'building') problems.push(`${id} is still building`)
    if (status === 'running' && processes.length === 0) problems.push(`${id} is running without a process`)
    if (status !== 'running' && processes.length > 0) problems.push(`${id} is ${status} and has processes`)
    const expected = { running: 'succeeded', failed: 'failed', canceled: 'canceled' }[String(status)]
    const isAnnounced = look.received.some(
      ({ event, data }) => data.deployment_id === id && event === `deployment.${expected}`,
    )
    if (expected !== undefined && !isAnnounced) problems.push(`${id} is ${status}, and no event has said so`)
  }
  for (const name of apps) {
    const own = deployments.filter((deployment) => deployment.name === name)
    const running = own.filter(({ status }) => status === 'running')
    if (running.length > 1) problems.push(`${name} has ${running.length} running releases`)
    if (own[0] === undefined) continue
    const response = await fetch(own[0].url).catch(() => undefined)
    const text = await response?.text()
    if (response?.status === 200 && text !== name) problems.push(`at the address of ${name} is ${text}`)
    const seen = response?.headers.get('x-fairlead-deployment') ?? undefined
    if (seen !== running[0]?.id) problems.push(`at the address of ${name} is ${seen}, not ${running[0]?.id}`)
  }
  return problems
}

/** Returns a generator of numbers from 0 to 1 that follow from a seed (mulberry32). */
function randomFrom(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
