import { once } from 'node:events'
import { parseArgs } from 'node:util'
import { columns } from '../bench/row.ts'
import { buildEnvironment, mavenEnvironment, pipEnvironment } from '../harness/environment.ts'
import { fairlead, serverProcess } from '../harness/process.ts'
import { temporaryDirectory } from '../harness/temporary.ts'
import { deployRow, hasAll, type Outcome } from './deploy-row.ts'
import type { Row } from './row.ts'
import { rows } from './table.ts'

/*
 * `npm run corpus [-- --groups none|top] [name…]`: deploys the applications of the corpus one after another on the plan
 * `free` of a server as users run it, and prints a table. A name may be a prefix. `--groups none` disables control
 * groups. The exit status is 1 when an application does not run, and 2 for an unknown name.
 */
process.exitCode = await main()

interface Line {
  readonly row: Row
  /** Null for an application that needs a missing program. */
  readonly outcome: Outcome | null
}

async function main(): Promise<number> {
  const { positionals, values } = parseArgs({
    allowPositionals: true,
    options: { groups: { type: 'string', default: 'top' } },
  })
  const isMeant = (row: Row) => positionals.length === 0 || positionals.some((name) => row.name.startsWith(name))
  const meant = rows.filter(isMeant)
  if (meant.length === 0) {
    console.error(`No application is named so. There are: ${rows.map(({ name }) => name).join(', ')}.`)
    return 2
  }
  const interrupt = new AbortController()
  for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => interrupt.abort())
  const lines = await deployAll(meant, values.groups, interrupt.signal)
  console.log(`\n${tableOf(lines, values.groups)}\n`)
  const tried = lines.filter(({ outcome }) => outcome !== null)
  const good = tried.filter(({ outcome }) => outcome?.isShown === true)
  console.log(`${good.length} of ${tried.length} run; ${lines.length - tried.length} could not be tried here.`)
  return good.length === tried.length ? 0 : 1
}

/**
 * Returns the lines of the applications that were deployed until the signal aborted. Nothing is left running in either
 * case.
 */
async function deployAll(meant: readonly Row[], groups: string, signal: AbortSignal): Promise<Line[]> {
  await using directory = await temporaryDirectory()
  const data = `${directory.path}/data`
  const made = await fairlead(['keys', 'create', '--new', '--name', 'corpus', '--data-dir', data])
  if (made.code !== 0) throw new Error(`the API key could not be created: ${made.stderr}`)
  const builds = JSON.stringify({ ...buildEnvironment(), ...pipEnvironment(), ...mavenEnvironment() })
  await using server = await serverProcess(data, { FAIRLEAD_CGROUPS: groups, FAIRLEAD_BUILD_ENV: builds })
  const interrupted = once(signal, 'abort').then(() => 'interrupted' as const)
  const client = server.clientFor(made.stdout.trim())
  const lines: Line[] = []
  for (const row of meant) {
    const deployed = (await hasAll(row.needs ?? [])) ? deployRow(client, row) : null
    // The server finishes its remaining work for this application.
    deployed?.catch(() => undefined)
    const outcome = await Promise.race([deployed, interrupted])
    if (outcome === 'interrupted') break
    lines.push({ row, outcome })
    const said = outcome === null ? 'not here' : `${outcome.status}, ${outcome.seconds.toFixed(1)} s`
    console.error([`${row.name}: ${said}`, ...(outcome?.problems ?? [])].join('\n  '))
  }
  return lines
}

function tableOf(lines: readonly Line[], groups: string): string {
  const mode = groups === 'none' ? 'no groups' : 'groups'
  const cells = lines.map(({ row, outcome }) =>
    outcome === null
      ? [row.name, row.kind, mode, '-', `not here: needs ${row.needs?.join(', ')}`, '-']
      : [row.name, row.kind, mode, outcome.seconds.toFixed(1), outcome.status, outcome.isShown ? 'ok' : 'no'],
  )
  return columns([['name', 'kind', 'mode', 'seconds', 'outcome', 'page'], ...cells])
}
