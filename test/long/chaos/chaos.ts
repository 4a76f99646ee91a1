import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { deployAndSettle, processesOf } from '../../harness/deployments.ts'
import { fairlead } from '../../harness/process.ts'
import { testReceiver } from '../../harness/receiver.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'
import { putUnderLoad } from './load.ts'
import { randomFrom } from './random.ts'
import { untilRest } from './rest.ts'
import { type Servers, startServers } from './servers.ts'
import { createSources } from './sources.ts'

/** The result of all rounds; `problems` is empty on success. */
export interface ChaosReport {
  readonly kills: number
  readonly pauses: number
  readonly deployments: number
  readonly events: number
  /** The longest time until another server led, in milliseconds; null with one server. */
  readonly slowestTakeoverMs: number | null
  readonly problems: readonly string[]
}

/** Each round kills a server at a random moment within this time after its load begins. */
const longestMs = 3_000
/** With several servers, this share of rounds suspends the leader instead of killing it. */
const pauseShare = 0.2
const longestPauseMs = 30_000
/** Another server leads within this time. */
const takeoverLimitMs = 5_000

/**
 * Kills a server with SIGKILL at random moments under a mixed load of deployments, and restarts it after each kill.
 * With several servers on one data directory it kills the leader, and some rounds suspend the leader (SIGSTOP) for up
 * to 30 s. Then checks that everything settles: nothing stuck, nothing twice, no orphan process or folder, every event
 * delivered, and only an address's own app answers there.
 */
export async function chaos(options: {
  readonly kills: number
  readonly servers: number
  /** Decides the random moments and the load. */
  readonly seed: number
  readonly signal: AbortSignal
  readonly onRound?: (round: number) => void
}): Promise<ChaosReport> {
  await using cleanup = new AsyncDisposableStack()
  const random = randomFrom(options.seed)
  const directory = cleanup.use(await temporaryDirectory())
  const dataDirectory = join(directory.path, 'data')
  const apiKey = (
    await fairlead(['keys', 'create', '--new', '--name', 'chaos', '--data-dir', dataDirectory])
  ).stdout.trim()
  const receiver = cleanup.use(await testReceiver())
  const sources = cleanup.use(await createSources())
  const environment = { FAIRLEAD_DRAIN_TIMEOUT: '1', FAIRLEAD_START_TIMEOUT: '4' }
  const servers = cleanup.use(await startServers({ count: options.servers, dataDirectory, apiKey, environment }))

  const client = () => servers.anyClient(random)
  const { id: projectId } = await client().projects.create({ body: { name: 'chaos' } })
  receiver.trust((await client().webhooks.create({ body: { url: receiver.url } })).secret)
  const first = await deployAndSettle(client(), projectId, { name: 'right', git_url: sources.url('right') })
  const processesEach = (await processesOf(first.id)).length

  const problems: string[] = []
  const takeovers: number[] = []
  let pauses = 0
  for (let round = 1; round <= options.kills; round++) {
    options.signal.throwIfAborted()
    options.onRound?.(round)
    const load = putUnderLoad({ client, projectId, sources, random })
    await sleep(random() * longestMs)
    const pause = options.servers > 1 && random() < pauseShare
    if (pause) pauses += 1
    const took = await (pause ? pauseLeader(servers, random) : killLeader(servers, options.servers))
    if (took !== null) takeovers.push(took)
    if (took !== null && took > takeoverLimitMs)
      problems.push(`after kill ${round}: another server led after ${took} ms`)
    await load
    const look = { client: client(), projectId, dataDirectory, received: receiver.received, processesEach }
    problems.push(...(await untilRest(look)).map((problem) => `after kill ${round}: ${problem}`))
  }
  const { deployments } = await client().deployments.list({ params: { project_id: projectId } })
  return {
    kills: options.kills - pauses,
    pauses,
    deployments: deployments.length,
    events: new Set(receiver.received.map(({ id }) => id)).size,
    slowestTakeoverMs: takeovers.length === 0 ? null : Math.max(...takeovers),
    problems,
  }
}

/** Kills the leader and restarts it. Returns the time until another server led; null with one server. */
async function killLeader(servers: Servers, count: number): Promise<number | null> {
  const { at, epoch } = await servers.leader()
  await servers.kill(at)
  const took = count === 1 ? null : await servers.untilOtherLeads(epoch)
  await servers.start(at)
  return took
}

/** Suspends the leader until another server has led for a while. Returns the time until it led. */
async function pauseLeader(servers: Servers, random: () => number): Promise<number> {
  const { at, epoch } = await servers.leader()
  servers.pause(at)
  const took = await servers.untilOtherLeads(epoch)
  await sleep(random() * longestPauseMs)
  servers.resume(at)
  return took
}
