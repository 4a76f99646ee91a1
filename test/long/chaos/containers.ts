import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Client } from '@fairlead/server/client'
import { type ContainerAnswer, pushShop } from '../../harness/container-app.ts'
import { deployAndSettle } from '../../harness/deployments.ts'
import { startDockerd, type TestDockerd } from '../../harness/docker.ts'
import { fairlead } from '../../harness/process.ts'
import { startRegistry, type TestRegistry } from '../../harness/registry.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'
import { randomFrom } from './random.ts'
import { startServers } from './servers.ts'

/** The result of all rounds; `problems` is empty on success. */
export interface ContainersReport {
  /** The number of kills of each kind. */
  readonly kills: Readonly<Record<Victim, number>>
  readonly deployments: number
  /** The longest time until everything had settled, in milliseconds. */
  readonly slowestRestMs: number
  readonly problems: readonly string[]
}

const victims = ['server', 'engine', 'container'] as const
type Victim = (typeof victims)[number]

/** Each round kills something at a random moment within this time after its load begins. */
const longestMs = 3_000
const restTimeoutMs = 180_000

/** The app of each name has the image of one tag. Its response identifies the tag. */
const apps = { left: 1, right: 2 } as const
type AppName = keyof typeof apps

interface Stage {
  readonly client: () => Client
  readonly projectId: string
  readonly dockerd: TestDockerd
  readonly dataDirectory: string
  readonly registry: TestRegistry
  readonly random: () => number
}

/**
 * Kills the server, the Docker engine or a container with SIGKILL at random moments during deployments of images, and
 * restarts it. Then checks each time that everything settles: nothing stuck, no container and no image without an
 * owner, and only an address's own app answers there.
 */
export async function chaosOfContainers(options: {
  readonly kills: number
  /** Decides the random moments and the load. */
  readonly seed: number
  /** True when containers keep running while the engine is unavailable. */
  readonly liveRestore: boolean
  readonly signal: AbortSignal
  readonly onRound?: (round: number, victim: Victim) => void
}): Promise<ContainersReport> {
  await using cleanup = new AsyncDisposableStack()
  const random = randomFrom(options.seed)
  const dockerd = cleanup.use(await startDockerd({ liveRestore: options.liveRestore }))
  const registry = cleanup.use(await startRegistry())
  await pushShop(dockerd, registry)
  const directory = cleanup.use(await temporaryDirectory())
  const dataDirectory = join(directory.path, 'data')
  const args = ['keys', 'create', '--new', '--name', 'chaos', '--data-dir', dataDirectory]
  const apiKey = (await fairlead(args)).stdout.trim()
  const environment = { DOCKER_HOST: dockerd.host, FAIRLEAD_DRAIN_TIMEOUT: '1', FAIRLEAD_START_TIMEOUT: '10' }
  const servers = cleanup.use(await startServers({ count: 1, dataDirectory, apiKey, environment }))
  const client = () => servers.anyClient(random)
  const { id: projectId } = await client().projects.create({ body: { name: 'chaos', plan: 'enterprise' } })
  const stage: Stage = { client, projectId, dockerd, dataDirectory, registry, random }
  for (const name of ['left', 'right'] as const) {
    await deployAndSettle(client(), projectId, { name, image: imageOf(stage, name) })
  }

  const killers: Readonly<Record<Victim, () => Promise<void>>> = {
    async server() {
      await servers.kill(0)
      await servers.start(0)
    },
    async engine() {
      await dockerd.kill('SIGKILL')
      await sleep(random() * longestMs)
      await dockerd.start()
    },
    container: () => killAny(stage),
  }
  const report = { kills: { server: 0, engine: 0, container: 0 }, problems: [] as string[], slowestRestMs: 0 }
  for (let round = 1; round <= options.kills; round += 1) {
    options.signal.throwIfAborted()
    const victim = victims[(round - 1) % victims.length] ?? 'server'
    options.onRound?.(round, victim)
    const load = putUnderLoad(stage)
    await sleep(random() * longestMs)
    await killers[victim]()
    report.kills[victim] += 1
    const startedAt = performance.now()
    await load
    const left = await untilRest(stage)
    report.slowestRestMs = Math.max(report.slowestRestMs, performance.now() - startedAt)
    report.problems.push(...left.map((problem) => `after kill ${round} (${victim}): ${problem}`))
  }
  const { deployments } = await client().deployments.list({ params: { project_id: projectId } })
  return { ...report, deployments: deployments.length }
}

const imageOf = ({ registry }: Pick<Stage, 'registry'>, name: AppName): string => `${registry.host}/shop:${apps[name]}`

interface ListedContainer {
  readonly Id: string
  readonly State: string
  readonly Labels: Readonly<Record<string, string>>
}

const containersOf = ({ dockerd }: Pick<Stage, 'dockerd'>): Promise<ListedContainer[]> =>
  dockerd.engine.call({ method: 'GET', path: ['containers', 'json'], query: { all: true } })

async function killAny({ dockerd, random }: Stage): Promise<void> {
  const running = (await containersOf({ dockerd })).filter(({ State }) => State === 'running')
  const one = running[Math.floor(random() * running.length)]
  if (one === undefined) return
  // It may have ended by itself.
  await dockerd.engine.call({ method: 'POST', path: ['containers', one.Id, 'kill'] }).catch(() => undefined)
}

/** Sends some requests of every kind. The kill interrupts a few of them. */
async function putUnderLoad({ client, projectId, registry, random }: Stage): Promise<void> {
  const params = { project_id: projectId }
  const any = <T>(values: readonly T[]): T => values[Math.floor(random() * values.length)] as T
  const signal = () => AbortSignal.timeout(5_000)
  const create = (name: AppName, image: string) =>
    client().deployments.create({ params, body: { name, image }, signal: signal() })
  const sendRequests = async (): Promise<void> => {
    await create('right', imageOf({ registry }, 'right'))
    await create('left', any([imageOf({ registry }, 'left'), imageOf({ registry }, 'left'), `${registry.host}/none:1`]))
    const { deployments } = await client().deployments.list({ params, signal: signal() })
    for (let change = 0; change < 3; change += 1) {
      await sleep(random() * 400)
      const at = { params: { ...params, id: any(deployments.slice(0, 8)).id }, signal: signal() }
      // Some are refused, because the deployment's state does not allow them.
      await client()
        .deployments[any(['cancel', 'rollback', 'restart', 'stop'] as const)](at)
        .catch(() => undefined)
    }
    const { apps: all } = await client().apps.list({ params, signal: signal() })
    await client().processes.update({
      params: { ...params, app_id: any(all).id },
      body: { processes: { web: { instances: any([1, 2, 3]) } } },
      signal: signal(),
    })
    await create('right', imageOf({ registry }, 'right'))
  }
  // The server disappears in the middle of the request.
  await sendRequests().catch(() => undefined)
}

/** Resolves with the problems that remain after enough time to settle. */
async function untilRest(stage: Stage): Promise<string[]> {
  const deadline = performance.now() + restTimeoutMs
  for (;;) {
    const problems = await problemsNow(stage)
    if (problems.length === 0 || performance.now() > deadline) return problems
    await sleep(200)
  }
}

async function problemsNow(stage: Stage): Promise<string[]> {
  const { client, projectId } = stage
  const params = { project_id: projectId }
  const { deployments } = await client().deployments.list({ params })
  const problems = deployments.filter(({ status }) => status === 'building').map(({ id }) => `${id} is still building`)
  const containers = await containersOf(stage)
  const expected = new Map<string, number>()
  for (const { id: app_id, name } of (await client().apps.list({ params })).apps) {
    const running = deployments.filter((each) => each.name === name && each.status === 'running')
    if (running.length > 1) problems.push(`${name} has ${running.length} running releases`)
    const { processes } = await client().processes.list({ params: { ...params, app_id } })
    const instances = processes.find(({ type }) => type === 'web')?.instances ?? 1
    for (const { id } of running) expected.set(id, instances)
    const url = deployments.find((each) => each.name === name)?.url
    if (url !== undefined) problems.push(...(await routeProblems(name as AppName, url, running[0]?.id)))
  }
  for (const [id, instances] of expected) {
    const own = containers.filter(({ Labels, State }) => Labels['app.fairlead.release'] === id && State === 'running')
    if (own.length !== instances) problems.push(`${id} has ${own.length} containers that run, not ${instances}`)
  }
  const orphans = containers.filter(
    ({ Labels, State }) => !expected.has(Labels['app.fairlead.release'] ?? '') || State !== 'running',
  )
  problems.push(...orphans.map(({ Id, State, Labels }) => `${Id} of ${Labels['app.fairlead.release']} is ${State}`))
  problems.push(...(await lostProcesses(stage)))
  const kept = new Set(deployments.map(({ id }) => id))
  return [...problems, ...(await imageProblems(stage, kept))]
}

/**
 * A killed engine may forget a container that it was just starting, but the container's processes may not keep running.
 */
async function lostProcesses({ dockerd, dataDirectory }: Stage): Promise<string[]> {
  const running = (await containersOf({ dockerd })).filter(({ State }) => State === 'running').map(({ Id }) => Id)
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
  const lost = pids.map(async (pid) => {
    const [mounts, groups] = await Promise.all(
      ['mountinfo', 'cgroup'].map((file) => readFile(`/proc/${pid}/${file}`, 'utf8').catch(() => '')),
    )
    const isOwn = (mounts ?? '')
      .split('\n')
      .some((line) => line.includes(dataDirectory) && line.includes('/.fairlead-enter '))
    return isOwn && !running.some((id) => groups?.includes(id)) ? [`the process ${pid} belongs to no container`] : []
  })
  return (await Promise.all(lost)).flat()
}

/** The running release answers at an address, or no release. */
async function routeProblems(name: AppName, url: string, running: string | undefined): Promise<string[]> {
  const response = await fetch(url).catch(() => undefined)
  const text = await response?.text().catch(() => undefined)
  const seen = response?.headers.get('x-fairlead-deployment') ?? undefined
  if (seen !== running) return [`at the address of ${name} is ${seen}, not ${running}`]
  if (response?.status !== 200) return running === undefined ? [] : [`${name} answers ${response?.status}: ${text}`]
  const { release } = JSON.parse(text ?? '{}') as Partial<ContainerAnswer>
  return release === apps[name] ? [] : [`at the address of ${name} is an app of the image ${release}`]
}

/** Each image has only the names of existing deployments. */
async function imageProblems({ dockerd }: Stage, kept: ReadonlySet<string>): Promise<string[]> {
  interface Listed {
    readonly RepoTags: readonly string[] | null
    readonly RepoDigests: readonly string[] | null
  }
  const images = await dockerd.engine.call<Listed[]>({ method: 'GET', path: ['images', 'json'] })
  const names = images.flatMap(({ RepoTags, RepoDigests }) => [...(RepoTags ?? []), ...(RepoDigests ?? [])])
  const releases = new Set([...kept].map((id) => id.toLowerCase()))
  const others = names.filter((name) => !releases.has(name.split(':').at(-1) ?? '') && !name.includes('<none>@'))
  return others.map((name) => `the engine keeps an image as ${name}`)
}
