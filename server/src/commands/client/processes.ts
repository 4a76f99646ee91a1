import { Command } from 'commander'
import type { ResponseBody } from '../../contract/client.ts'
import { CommandError } from './command-error.ts'
import { type Connection, type LocalServer, withLocalOption, withServer } from './connection.ts'
import { type AppParams, findAppParams } from './find-app.ts'

interface ProcessFlags {
  readonly project?: string
  readonly dataDir?: string
  readonly json?: true
}

type Processes = ResponseBody<'processes.list'>
type Instance = Processes['processes'][number]['running'][number]

export function psCommand(local?: LocalServer): Command {
  const command = new Command('ps')
    .description('list the process types of an app and their instances')
    .argument('[app]', 'the name of the app; without it, the app that this folder was deployed as')
  return withFlags(command, local).action((app: string | undefined, flags: ProcessFlags) =>
    withServer(local, flags, async (connection) => {
      const params = await paramsOf(connection, app, flags)
      print(await connection.client.processes.list({ params }), flags)
    }),
  )
}

export function scaleCommand(local?: LocalServer): Command {
  const command = new Command('scale')
    .description('set how many instances of its process types an app has, such as web=3 worker=1')
    .argument('<app>', 'the name of the app')
    .argument('<type=count...>', '"default" in place of a count leaves it to the repository')
  return withFlags(command, local).action((app: string, counts: string[], flags: ProcessFlags) => {
    const processes = Object.fromEntries(counts.map(parseCount))
    return withServer(local, flags, async (connection) => {
      const params = await paramsOf(connection, app, flags)
      print(await connection.client.processes.update({ params, body: { processes } }), flags)
    })
  })
}

const withFlags = (command: Command, local: LocalServer | undefined): Command =>
  withLocalOption(
    command
      .option('--project <name>', 'the name or the id of the project')
      .option('--json', 'print the answer of the server as JSON'),
    local,
  )

async function paramsOf(connection: Connection, app: string | undefined, flags: ProcessFlags): Promise<AppParams> {
  return (await findAppParams(connection, { app, project: flags.project, folder: '.' })).params
}

function parseCount(text: string): [string, { instances: number | null }] {
  const [, type, count] = /^([a-z][\w-]*)=(\d{1,4}|default)$/.exec(text) ?? []
  if (type === undefined) throw new CommandError(`${text}: give a process type and a number, such as web=3.`)
  return [type, { instances: count === 'default' ? null : Number(count) }]
}

function print(answer: Processes, { json }: ProcessFlags): void {
  if (json === true) {
    process.stdout.write(`${JSON.stringify(answer)}\n`)
    return
  }
  for (const { type, instances, command, memory_mb, cpus, running } of answer.processes) {
    process.stdout.write(`${type}: ${instances} × ${memory_mb} MB, ${cpus} CPU: ${command}\n`)
    for (const { name, state, restarts, started_at, usage } of running) {
      const since = started_at === null ? '' : ` since ${started_at}`
      const again = restarts === 0 ? '' : `, started again ${restarts} times`
      process.stdout.write(`  ${name} ${state}${since}${again}${usageText(usage)}\n`)
    }
  }
}

/** Returns text such as `, 48 MB, 0.02 CPU`, without values that are not measured yet. */
function usageText(usage: Instance['usage']): string {
  if (usage === null) return ''
  const cpus = usage.cpus === null ? '' : `, ${usage.cpus.toFixed(2)} CPU`
  return `, ${Math.round(usage.memory_bytes / 1e6)} MB${cpus}`
}
