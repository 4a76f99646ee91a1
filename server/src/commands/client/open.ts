import { Command } from 'commander'
import { findApp } from './apps.ts'
import { openBrowser } from './browser.ts'
import { withServer } from './connection.ts'
import { type LocalServer, withLocalOption } from './local.ts'

interface OpenFlags {
  readonly project?: string
  readonly dataDir?: string
}

/** `fairlead open [APP]` */
export function openCommand(local?: LocalServer): Command {
  const command = new Command('open')
    .description('print the address of an app, and open it in a browser where there is one')
    .argument('[app]', 'the name of the app; without it, the app that this folder was deployed as')
    .option('--project <name>', 'the name or the id of the project')
  return withLocalOption(command, local).action((app: string | undefined, { project, dataDir }: OpenFlags) =>
    withServer(local, { dataDir, project }, async (connection) => {
      const { latest } = await findApp(connection, { app, project, folder: '.' })
      process.stdout.write(`${latest.url}\n`)
      if (/^https?:\/\//.test(latest.url)) await openBrowser(latest.url)
    }),
  )
}
