import { once } from 'node:events'
import { Command } from 'commander'
import { startProcess } from '../../platform/processes/spawn.ts'
import { type LocalServer, withLocalOption, withServer } from './connection.ts'
import { findApp } from './find-app.ts'

interface OpenFlags {
  readonly project?: string
  readonly dataDir?: string
}

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

export async function openBrowser(url: string): Promise<void> {
  const child = startProcess('xdg-open', [url], { stdio: 'ignore', detached: true })
  await Promise.race([once(child, 'spawn'), once(child, 'error')]).catch(() => undefined)
  child.unref()
}
