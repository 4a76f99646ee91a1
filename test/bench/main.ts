import { benchAction } from './action.ts'
import { benchApi } from './api.ts'
import { benchBesideBuild } from './beside-build.ts'
import { benchDashboard } from './dashboard.ts'
import { benchDatabases } from './databases.ts'
import { benchDeploy } from './deploy.ts'
import { benchDockerReleases } from './docker-releases.ts'
import { benchEdge } from './edge.ts'
import { benchFirstDeploy } from './first-deploy.ts'
import { benchGateway } from './gateway.ts'
import { benchGenerated } from './generated.ts'
import { benchIdle } from './idle.ts'
import { benchIsolation } from './isolation.ts'
import { benchReleases } from './releases.ts'
import { benchReplicas } from './replicas.ts'
import { type Bench, type BenchResult, table } from './row.ts'
import { benchStorage } from './storage.ts'
import { benchWebhooks } from './webhooks.ts'

/**
 * `npm run bench [-- <name>…]`: runs all benchmarks or the named ones, and prints their results as a table. A missed aim
 * is not a failure. The exit status is 1 after an error, 2 for an unknown name and 130 after Ctrl+C.
 */
const benches: Readonly<Record<string, Bench>> = {
  databases: benchDatabases,
  action: benchAction,
  deploy: benchDeploy,
  first: benchFirstDeploy,
  idle: benchIdle,
  gateway: benchGateway,
  edge: benchEdge,
  isolation: benchIsolation,
  'beside-build': benchBesideBuild,
  api: benchApi,
  releases: benchReleases,
  'docker-releases': benchDockerReleases,
  generated: benchGenerated,
  replicas: benchReplicas,
  webhooks: benchWebhooks,
  storage: benchStorage,
  dashboard: benchDashboard,
}

process.exitCode = await main(process.argv.slice(2))

async function main(names: readonly string[]): Promise<number> {
  const unknown = names.find((name) => benches[name] === undefined)
  if (unknown !== undefined) {
    console.error(`There is no row ${unknown}. The rows are: ${Object.keys(benches).join(', ')}.`)
    return 2
  }
  const interrupt = new AbortController()
  for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => interrupt.abort())

  const results: BenchResult[] = []
  try {
    for (const [name, bench] of Object.entries(benches)) {
      if (names.length > 0 && !names.includes(name)) continue
      console.error(`Measuring ${name} …`)
      results.push(await bench(interrupt.signal))
    }
  } catch (error) {
    // An error after an interruption is caused by it.
    if (interrupt.signal.aborted) {
      console.error('Interrupted. Everything was stopped.')
      return 130
    }
    console.error(error)
    return 1
  } finally {
    print(results)
  }
  return 0
}

function print(results: readonly BenchResult[]): void {
  if (results.length === 0) return
  console.log(`\n${table(results.flatMap(({ rows }) => rows))}\n`)
  for (const { notes } of results) console.log(`${notes.join('\n')}\n`)
}
