import { readFile } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { repository } from '../harness/repository.ts'
import { measureWorkers } from './gateway-workers.ts'
import { startPlatform } from './platform.ts'
import { caddy, nginx, startProxy } from './proxies.ts'
import { createLoad, type ProxyRound } from './proxy-load.ts'
import type { Bench, Row } from './row.ts'
import { median, quantile } from './statistics.ts'

const connections = 16
const roundSeconds = 1
const full = {
  warmUpSeconds: 3,
  /** Many short rounds, so that other load on the machine affects all targets alike. */
  rounds: 21,
}
const brief: typeof full = { warmUpSeconds: 0, rounds: 1 }
const mostResidentBytes = 70_000_000
const others = [{ program: nginx }, { program: caddy, aim: 0.8 }] as const

/** An address under load, and its results. */
interface Target {
  readonly name: string
  readonly address: string
  readonly measured: ProxyRound[]
  /** The target for the gateway's share of its throughput. */
  readonly aim?: number
}

/**
 * Measures one app under the same load at several addresses in turns: the gateway, the app's own port, and nginx and
 * Caddy if they are installed. Then compares a gateway of one process with a gateway of two.
 */
export const benchGateway: Bench = async ({ signal, short }) => {
  const { warmUpSeconds, rounds } = short ? brief : full
  // Also measures the app's own port.
  await using platform = await startPlatform({ FAIRLEAD_APP_NETWORK: 'none' }, signal)
  await using source = await repository(app)
  const made = await platform.deploy({ name: 'web', git_url: source.url })
  const port = Number(await (await fetch(new URL('/port', made.url), { signal })).text())

  const resident = await residentBytes(platform.dataDirectory)
  const gateway: Target = { name: 'gateway', address: made.url, measured: [] }
  const targets: Target[] = [gateway, { name: 'direct', address: `http://127.0.0.1:${port}/`, measured: [] }]
  const missing: Row[] = []
  await using cleanup = new AsyncDisposableStack()
  for (const { program, ...aim } of others) {
    const proxy = cleanup.use(await startProxy(program, { app: port, signal }))
    if (proxy === null) missing.push({ name: `gateway: against ${program.name}`, measured: 'not installed' })
    else targets.push({ name: `${program.name} ${proxy.version}`, address: proxy.address, measured: [], ...aim })
  }

  await using load = await createLoad({ connections, short })
  for (const { address } of targets) if (warmUpSeconds > 0) await load.run(address, warmUpSeconds, signal)
  for (let round = 0; round < rounds; round++) {
    // Rotates the order, so that no target always follows the same one.
    const first = round % targets.length
    for (const target of [...targets.slice(first), ...targets.slice(0, first)]) {
      target.measured.push(await load.run(target.address, roundSeconds, signal))
    }
  }

  const workers = await measureWorkers(load, port, { warmUpSeconds, rounds, signal })
  return {
    rows: [
      ...targets.slice(1).flatMap((other) => comparison(gateway, other)),
      ...missing,
      ...workers.rows,
      memoryRow(resident),
    ],
    notes: [
      `Medians of the ratios in ${rounds} rounds of ${roundSeconds} s in turns; ${connections} connections of ` +
        `${load.name}, as fast as they go; app, proxies and clients share ${availableParallelism()} cores.`,
      ...targets.map((target) => describe(target, gateway)),
      ...workers.notes,
    ],
  }
}

/** The resident memory of a data directory's gateway, before the load. */
async function residentBytes(dataDirectory: string): Promise<number> {
  const { pid } = JSON.parse(await readFile(join(dataDirectory, 'gateway', 'gateway.json'), 'utf8'))
  const [, kilobytes] = /^VmRSS:\s+(\d+) kB$/m.exec(await readFile(`/proc/${pid}/status`, 'utf8')) ?? []
  return Number(kilobytes) * 1024
}

function memoryRow(bytes: number): Row {
  const megabytes = (of: number) => `${Math.round(of / 1e6)} MB`
  const aim = { text: `≤ ${megabytes(mostResidentBytes)}`, met: bytes <= mostResidentBytes }
  return { name: 'gateway: memory, idle', measured: megabytes(bytes), aim }
}

const app = {
  'package.json': JSON.stringify({ name: 'web', scripts: { start: 'node server.js' } }),
  'server.js': `require('node:http')
  .createServer((request, response) => response.end(request.url === '/port' ? process.env.PORT : 'Hello'))
  .listen(process.env.PORT)
`,
}

/** Compares the gateway with another target, by rounds that were adjacent in time. */
function comparison(gateway: Target, other: Target): Row[] {
  const throughput = median(ratios(gateway, other, 'perSecond'))
  return [
    {
      name: 'gateway: requests/s',
      measured: `${throughput.toFixed(2)} of ${other.name}`,
      ...(other.aim !== undefined && { aim: { text: `≥ ${other.aim}`, met: throughput >= other.aim } }),
    },
    { name: 'gateway: p99', measured: `${median(ratios(gateway, other, 'p99Ms')).toFixed(2)} × ${other.name}` },
  ]
}

function ratios(gateway: Target, other: Target, figure: keyof ProxyRound): number[] {
  return gateway.measured.map((round, at) => round[figure] / (other.measured[at]?.[figure] ?? Number.NaN))
}

/** Describes the results of a target, and the variation of the gateway's relative throughput between the rounds. */
function describe(target: Target, gateway: Target): string {
  const of = (figure: keyof ProxyRound) => median(target.measured.map((round) => round[figure]))
  const itself = `${target.name}: ${Math.round(of('perSecond'))} requests/s, p99 ${of('p99Ms').toFixed(1)} ms`
  if (target === gateway) return `${itself}.`
  const parts = ratios(gateway, target, 'perSecond')
  const [low, high] = [quantile(parts, 0.25), quantile(parts, 0.75)]
  return `${itself}; half of the rounds gave the gateway ${low.toFixed(2)} to ${high.toFixed(2)} of its requests/s.`
}
