import { Command } from 'commander'
import { type AppParams, findAppParams, type Project } from '../apps.ts'
import { type Connection, withServer } from '../connection.ts'
import { type LocalServer, withLocalOption } from '../local.ts'

export interface AppFlags {
  readonly project?: string
  readonly dataDir?: string
}

/** An app of a server, as a command finds it. */
export interface NamedApp {
  readonly connection: Connection
  readonly project: Project
  readonly name: string
  readonly params: AppParams
}

/** Returns a command whose first argument is the name of an app. */
export const appCommand = (name: string, description: string, local: LocalServer | undefined): Command =>
  withLocalOption(
    new Command(name)
      .description(description)
      .argument('<app>', 'the name of the app')
      .option('--project <name>', 'the name or the id of the project'),
    local,
  )

/** Does something with the app of this name. */
export function withNamedApp(
  local: LocalServer | undefined,
  flags: AppFlags,
  app: string,
  work: (app: NamedApp) => Promise<void>,
): Promise<void> {
  return withServer(local, flags, async (connection) =>
    work({ connection, ...(await findAppParams(connection, { app, project: flags.project, folder: '.' })) }),
  )
}
