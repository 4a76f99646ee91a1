import { readFile, writeFile } from 'node:fs/promises'
import { availableParallelism, cpus } from 'node:os'
import { join } from 'node:path'
import { connectGateway } from '../../server/src/gateway/gateway.ts'
import { openCgroups } from '../../server/src/platform/cgroups.ts'
import { familyOf, readStat, ticksPerSecond } from '../../server/src/platform/processes.ts'
import { readHierarchy } from '../../server/src/runtimes/process/confinement/groups.ts'
import { temporaryDirectory } from '../harness/temporary.ts'
import { freePort } from './children.ts'
import { inTime } from './deadline.ts'
import { nginxAnswering, startProxy } from './proxies.ts'
import type { Load } from './proxy-load.ts'
import type { BenchResult } from './row.ts'
import { median } from './statistics.ts'

const roundSeconds = 1
const aim = 1.3
/** The share of a core for a limited worker: the load generator needs far more than a gateway. */
const limitedCpus = 0.25

interface Round {
  readonly perSecond: number
  /** CPU time per request, in microseconds: of the gateway, of the program behind it, of the load generator. */
  readonly gateway: number
  readonly answering: number
  readonly load: number
  /** Shares of the time of all cores, from 0 to 1: the used time, and the time that unrelated programs used. */
  readonly busy: number
  readonly foreign: number
}

interface Target {
  readonly name: string
  readonly address: string
  /** The processes of the gateway, and of the program behind it. */
  readonly gateway: readonly number[]
  readonly answering: readonly number[]
  readonly measured: Round[]
}

/** The number of measurements. */
interface Length {
  readonly warmUpSeconds: number
  readonly rounds: number
  readonly signal: AbortSignal
}

/** Limits each process of a gateway to a share of a core. */
type Limit = (pids: readonly number[]) => Promise<void>

/**
 * Measures a gateway of one process and a gateway of two, in turns. The load generator and the program behind the
 * gateways run on the same cores, so both cost as little as possible. With control groups each worker has a share of a
 * core, which leaves free time even on two cores. Without control groups, a single core limits one worker; the
 * remaining time of all cores limits two. The CPU times of all processes show how much that is.
 *
 * @param app the port that answers where nginx is not installed
 */
export async function measureWorkers(load: Load, app: number, length: Length): Promise<BenchResult> {
  const cores = availableParallelism()
  if (cores < 2) return { rows: [], notes: ['One worker is not compared with two: there is a single core.'] }
  await using cleanup = new AsyncDisposableStack()
  const answering = cleanup.use(await startProxy(nginxAnswering, { app, signal: length.signal }))
  const behind =
    answering === null
      ? { port: app, pids: [] }
      : { port: Number(new URL(answering.address).port), pids: await familyOf(answering.pid) }
  const limit = await limitWith(cleanup)
  const limited = limit === null ? [] : [await compareWorkers(load, behind, limit, length)]
  const free = await compareWorkers(load, behind, null, length)
  const [{ factor }] = [...limited, free]
  return {
    rows: [
      {
        name: `gateway: two workers${limit === null ? '' : `, each with ${limitedCpus} of a core`}`,
        measured: `${factor.toFixed(2)} × one`,
        aim: { text: `≥ ${aim}`, met: factor >= aim },
      },
    ],
    notes: [
      ...free.notes,
      `Without a limit, two workers served ${free.factor.toFixed(2)} × one. By these CPU times it could be about ` +
        `${free.most.toFixed(2)} × on ${cores} cores if nothing else ran: the other programs share the cores with them.`,
    ],
  }
}

/** Returns a function that limits processes until the stack is disposed of; null without control groups. */
async function limitWith(cleanup: AsyncDisposableStack): Promise<Limit | null> {
  const groups = await openCgroups(await readHierarchy('top'), `fairlead-bench-${process.pid}`)
  if (groups?.controllers.has('cpu') !== true) return null
  cleanup.defer(() => groups.close())
  return async (pids) => {
    for (const pid of pids) {
      const name = `worker-${pid}`
      const limits = { memoryBytes: 1e9, cpus: limitedCpus, processes: 100 }
      for (const file of await groups.make(name, limits)) await writeFile(file, String(pid))
    }
  }
}

/** Measures gateways of one worker and of two in turns. */
async function compareWorkers(
  load: Load,
  behind: Behind,
  limit: Limit | null,
  { warmUpSeconds, rounds, signal }: Length,
): Promise<{ readonly factor: number; readonly most: number; readonly notes: readonly string[] }> {
  await using cleanup = new AsyncDisposableStack()
  const one = cleanup.use(await startWorkers(1, behind, 'a gateway with one worker', signal)).target
  const two = cleanup.use(await startWorkers(2, behind, 'a gateway with two workers', signal)).target
  for (const { gateway } of [one, two]) await limit?.(gateway)

  for (const { address } of [one, two]) if (warmUpSeconds > 0) await load.run(address, warmUpSeconds, signal)
  for (let round = 0; round < rounds; round++) {
    for (const target of round % 2 === 0 ? [one, two] : [two, one]) {
      target.measured.push(await measure(target, load, signal))
    }
  }

  const factor = median(
    two.measured.map(({ perSecond }, at) => perSecond / (one.measured[at]?.perSecond ?? Number.NaN)),
  )
  const each = of(two, 'gateway') + of(two, 'answering') + of(two, 'load')
  return { factor, most: (availableParallelism() * of(one, 'gateway')) / each, notes: [one, two].map(describe) }
}

async function measure({ address, ...target }: Target, load: Load, signal: AbortSignal): Promise<Round> {
  const times = () => ({
    gateway: cpuTimeOf(target.gateway),
    answering: cpuTimeOf(target.answering),
    // The time of an ended load generator counts as this process's time.
    load: cpuTimeOf([process.pid]),
    ...timesOfCores(),
  })
  const before = times()
  const { perSecond } = await load.run(address, roundSeconds, signal)
  const after = times()
  const requests = perSecond * roundSeconds
  const used = (of: keyof typeof before) => after[of] - before[of]
  const each = (of: keyof typeof before) => (used(of) * 1000) / requests
  return {
    perSecond,
    gateway: each('gateway'),
    answering: each('answering'),
    load: each('load'),
    busy: used('busy') / used('all'),
    foreign: (used('busy') - used('gateway') - used('answering') - used('load')) / used('all'),
  }
}

/** Returns the CPU time that processes have used so far, in milliseconds. */
function cpuTimeOf(pids: readonly number[]): number {
  return pids.reduce((sum, pid) => sum + ((readStat(pid)?.cpuTicks ?? 0) * 1000) / ticksPerSecond, 0)
}

/** Returns the time of all cores since the start of the machine, in milliseconds. */
function timesOfCores(): { readonly busy: number; readonly all: number } {
  const times = cpus().map((core) => core.times)
  const idle = times.reduce((sum, each) => sum + each.idle, 0)
  const all = times.reduce((sum, { user, nice, sys, idle: unused, irq }) => sum + user + nice + sys + unused + irq, 0)
  return { busy: all - idle, all }
}

/** The program behind the gateways. */
interface Behind {
  readonly port: number
  readonly pids: readonly number[]
}

/** Starts a gateway with this many processes in front of a program, as a server starts it. */
async function startWorkers(
  workers: number,
  behind: Behind,
  name: string,
  signal: AbortSignal,
): Promise<{ readonly target: Target } & AsyncDisposable> {
  await using cleanup = new AsyncDisposableStack()
  const directory = cleanup.use(await temporaryDirectory())
  const log = { info() {}, warn: console.warn, error: console.error }
  const host = '127.0.0.1'
  const options = { version: 'bench', host, apps: { mode: 'ports' }, trustedProxies: [], workers, edge: null } as const
  const connected = connectGateway({
    dataDirectory: directory.path,
    options,
    runAs: null,
    epoch: 1,
    retireMs: 0,
    log,
  })
  const gateway = await inTime('gateway', signal, connected)
  cleanup.defer(() => gateway.stop({ timeoutMs: 0 }))
  const own = await freePort()
  await gateway.open('app', { port: own })
  await gateway.route('app', { deploymentId: 'dep', endpoints: [{ host, port: behind.port }] })
  const { pid } = JSON.parse(await readFile(join(directory.path, 'gateway', 'gateway.json'), 'utf8'))
  const pids = await familyOf(pid)
  const owned = cleanup.move()
  return {
    target: { name, address: `http://${host}:${own}/`, gateway: pids, answering: behind.pids, measured: [] },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

const of = (target: Target, figure: keyof Round): number => median(target.measured.map((round) => round[figure]))

function describe(target: Target): string {
  const microseconds = (figure: 'gateway' | 'answering' | 'load') => `${of(target, figure).toFixed(1)} µs`
  const percent = (figure: 'busy' | 'foreign') => `${Math.round(of(target, figure) * 100)} %`
  return (
    `${target.name}: ${Math.round(of(target, 'perSecond'))} requests/s; CPU time of each: ${microseconds('gateway')} in the ` +
    `gateway, ${microseconds('answering')} in the program behind it, ${microseconds('load')} in the load generator; ` +
    `${percent('busy')} of the cores were used, ${percent('foreign')} by other programs.`
  )
}
