import { randomInt } from 'node:crypto'
import { parseArgs } from 'node:util'
import { chaos } from './chaos.ts'
import { chaosOfContainers } from './containers.ts'

/**
 * `npm run chaos [-- <kills> [<seed>] [--servers <count> | --docker]]`: kills the leading server under load at random
 * moments, by default 100 times, with one server or with several on one database and data directory. With `--docker` it
 * kills the server, the Docker engine and containers in turn, 50 times. The exit status is 1 when problems were found,
 * 2 for invalid arguments and 130 after Ctrl+C.
 */
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { servers: { type: 'string', default: '1' }, docker: { type: 'boolean', default: false } },
})
const fewer = values.docker || values.servers !== '1'
const [kills = fewer ? '50' : '100', seed = String(randomInt(2 ** 32))] = positionals

process.exitCode = await main(Number(kills), Number(seed), Number(values.servers))

async function main(kills: number, seed: number, servers: number): Promise<number> {
  if (!isCount(kills) || !isCount(servers) || !Number.isInteger(seed)) {
    console.error('Usage: npm run chaos [-- <kills> [<seed>] [--servers <count> | --docker]]')
    return 2
  }
  if (values.docker) return ofContainers(kills, seed)
  const interrupt = new AbortController()
  for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => interrupt.abort())
  console.log(
    `${kills} kills of ${servers === 1 ? 'one server' : `the leader of ${servers} servers`} with the seed ${seed}.`,
  )
  const startedAt = performance.now()
  try {
    const report = await chaos({
      kills,
      servers,
      seed,
      signal: interrupt.signal,
      onRound: (round) => {
        if (round % 10 === 0) console.error(`kill ${round} of ${kills} …`)
      },
    })
    const seconds = Math.round((performance.now() - startedAt) / 1000)
    console.log(
      `${report.kills} kills, ${report.pauses} pauses, ${report.deployments} deployments, ${report.events} events delivered, ${seconds} s.`,
    )
    const { slowestTakeoverMs } = report
    if (slowestTakeoverMs !== null) console.log(`Another server led after at most ${Math.round(slowestTakeoverMs)} ms.`)
    for (const problem of report.problems) console.log(problem)
    console.log(report.problems.length === 0 ? 'No problems were found.' : `${report.problems.length} problems.`)
    return report.problems.length === 0 ? 0 : 1
  } catch (error) {
    if (interrupt.signal.aborted) {
      console.error('Interrupted. Everything was stopped.')
      return 130
    }
    console.error(error)
    return 1
  }
}

/** Half of the kills use an engine whose containers keep running without it, half an engine that ends them. */
async function ofContainers(kills: number, seed: number): Promise<number> {
  const interrupt = new AbortController()
  for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => interrupt.abort())
  let problems = 0
  for (const liveRestore of [true, false]) {
    const half = liveRestore ? Math.ceil(kills / 2) : Math.floor(kills / 2)
    console.log(`${half} kills with the seed ${seed}, live-restore ${liveRestore ? 'on' : 'off'}.`)
    const startedAt = performance.now()
    const report = await chaosOfContainers({
      ...{ kills: half, seed, liveRestore, signal: interrupt.signal },
      onRound: (round, victim) => console.error(`kill ${round} of ${half}: ${victim}`),
    })
    const { server, engine, container } = report.kills
    const seconds = Math.round((performance.now() - startedAt) / 1000)
    const rest = Math.round(report.slowestRestMs / 1000)
    console.log(
      `Killed: ${server} × the server, ${engine} × the engine, ${container} × a container. ` +
        `${report.deployments} deployments, at rest after at most ${rest} s, ${seconds} s.`,
    )
    for (const problem of report.problems) console.log(problem)
    problems += report.problems.length
  }
  console.log(problems === 0 ? 'No problems were found.' : `${problems} problems.`)
  return problems === 0 ? 0 : 1
}

function isCount(value: number): boolean {
  return Number.isInteger(value) && value >= 1
}
