import type { Command } from 'commander'
import { findProject } from '../apps.ts'
import { CommandError } from '../command-error.ts'
import type { LocalServer } from '../local.ts'
import { type DeploymentFlags, runDeployment } from '../run-deployment.ts'
import { type AppFlags, appCommand, withNamedApp } from './command.ts'

interface PromoteFlags extends AppFlags, DeploymentFlags {
  readonly to: string
  readonly toProject?: string
}

/** `fairlead promote APP --to APP [--to-project PROJECT]` */
export function promoteCommand(local?: LocalServer): Command {
  return appCommand('promote', 'release what serves an app in another app, without another build', local)
    .requiredOption('--to <app>', 'the app that gets the release; it is made when there is none')
    .option('--to-project <name>', 'the project of that app, if it is another one')
    .option('--json', 'print the deployment as JSON')
    .action((app: string, { to, toProject, ...flags }: PromoteFlags) =>
      withNamedApp(local, flags, app, async ({ connection, project, params, name }) => {
        const { client } = connection
        const target = toProject === undefined ? project : await findProject(client, toProject)
        if (target === undefined) throw new CommandError(`There is no project ${toProject}.`)
        const { serving } = await client.apps.get({ params: { project_id: params.project_id, id: params.app_id } })
        if (serving === null) throw new CommandError(`Nothing serves ${name}: deploy or start it first.`)
        await runDeployment(connection, target, { name: to, from_deployment_id: serving.id }, flags)
      }),
    )
}
