import { Command, Option } from 'commander'
import { findApp } from './apps.ts'
import { wholeNumber } from './command-error.ts'
import { withServer } from './connection.ts'
import { followAppLog, followLog, printable, withProcess } from './follow.ts'
import { type LocalServer, withLocalOption } from './local.ts'
import { say } from './wait.ts'

interface LogsFlags {
  readonly follow?: boolean
  readonly all?: boolean
  readonly process?: string
  readonly tail: number
  readonly project?: string
  readonly dataDir?: string
}

/** `fairlead logs [-f] [APP]` */
export function logsCommand(local?: LocalServer): Command {
  const command = new Command('logs')
    .description('print the log of an app: of its newest deployment, the build first')
    .argument('[app]', 'the name of the app; without it, the app that this folder was deployed as')
    .option('-f, --follow', 'print new lines as they come, until Ctrl+C')
    .addOption(
      new Option('--tail <lines>', 'how many of the last lines').argParser(wholeNumber(0, 100_000)).default(1_000),
    )
    .option(
      '-a, --all',
      'the log of the newest ten releases in place of the newest deployment, and with -f of those to come',
    )
    .option('--process <name>', 'only what a process type or one of its instances printed: worker, worker.2')
    .option('--project <name>', 'the name or the id of the project')
  return withLocalOption(command, local).action((app: string | undefined, flags: LogsFlags) =>
    withServer(local, flags, async (connection) => {
      const { latest } = await findApp(connection, { app, project: flags.project, folder: '.' })
      const { project_id, id, app_id } = latest
      const query = { tail: String(flags.tail), ...(flags.process !== undefined && { process: flags.process }) }
      const print = (line: string) => void process.stdout.write(`${printable(line)}\n`)
      const { client } = connection
      if (flags.follow) {
        const follow = { query, print, say, signal: new AbortController().signal }
        return flags.all
          ? followAppLog(client, { project_id, app_id }, follow)
          : followLog(client, { params: { project_id, id }, ...follow })
      }
      const named = { ...query, processes: 'true' } as const
      const response = await (flags.all
        ? client.logs.read({ params: { project_id, app_id }, query: named })
        : client.deployments.logs({ params: { project_id, id }, query: named }))
      const text = await response.text()
      for (const line of text.split('\n').slice(0, -1)) print(plainLine(line))
    }),
  )
}

/** Takes the name before a line of the server's text off, where `withProcess` shows none. The line before those of a release has no name. */
function plainLine(line: string): string {
  const [, process, text] = /^(build|[a-z][\w-]*\.\d+) (.*)$/s.exec(line) ?? []
  return process === undefined || text === undefined ? line : withProcess(process, text)
}
