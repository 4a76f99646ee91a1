import { randomInt } from 'node:crypto'
import { chaos } from '../harness/chaos.ts'

/**
 * `npm run chaos [-- <kills> [<seed>]]`: kills a server under load at random moments, by default 100 times. The exit
 * status is 1 when problems were found, 2 for invalid arguments and 130 after Ctrl+C.
 */
const [kills = '100', seed = String(randomInt(2 ** 32))] = process.argv.slice(2)

process.exitCode = await main(Number(kills), Number(seed))

async function main(kills: number, seed: number): Promise<number> {
  if (!Number.isInteger(kills) || kills < 1 || !Number.isInteger(seed)) {
    console.error('Usage: npm run chaos [-- <kills> [<seed>]]')
    return 2
  }
  const interrupt = new AbortController()
  for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => interrupt.abort())
  console.log(`${kills} kills with the seed ${seed}.`)
  const startedAt = performance.now()
  try {
    const report = await chaos({
      kills,
      seed,
      signal: interrupt.signal,
      onRound: (round) => {
        if (round % 10 === 0) console.error(`kill ${round} of ${kills} …`)
      },
    })
    const seconds = Math.round((performance.now() - startedAt) / 1000)
    console.log(`${report.deployments} deployments, ${report.events} events delivered, ${seconds} s.`)
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
