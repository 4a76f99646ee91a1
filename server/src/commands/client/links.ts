import { Command } from 'commander'
import { isId } from '../../contract/ids.ts'
import { CommandError } from './command-error.ts'
import type { LocalServer } from './connection.ts'
import { type AppFlags, appCommand, type NamedApp, withNamedApp } from './find-app.ts'
import { printable } from './logs.ts'

export function linksCommand(local?: LocalServer): Command {
  const part = (name: string, description: string) => appCommand(name, description, local)
  return new Command('links')
    .description('link databases to an app: a variable of its releases has the connection string')
    .addCommand(
      part('list', 'print the databases that an app is linked to').action((app: string, flags: AppFlags) =>
        withNamedApp(local, flags, app, async (found) => {
          for (const { variable, database_name, database_id } of await linksOf(found)) {
            process.stdout.write(`${printable([variable, database_name, database_id].join('\t'))}\n`)
          }
        }),
      ),
    )
    .addCommand(
      part('add', 'link a database')
        .argument('<database>', 'the name or the id of the database')
        .option('--variable <name>', 'the variable that has the connection string', 'DATABASE_URL')
        .action((app: string, database: string, { variable, ...flags }: AppFlags & { readonly variable: string }) =>
          withNamedApp(local, flags, app, (found) => add(found, database, variable)),
        ),
    )
    .addCommand(
      part('remove', 'unlink a database')
        .argument('<variable>', 'the variable that has the connection string')
        .action((app: string, variable: string, flags: AppFlags) =>
          withNamedApp(local, flags, app, (found) => remove(found, variable)),
        ),
    )
}

async function linksOf({ connection, params: { project_id, app_id } }: NamedApp) {
  const { links } = await connection.client.links.list({ params: { project_id } })
  return links.filter((link) => link.app_id === app_id)
}

async function add(app: NamedApp, database: string, variable: string): Promise<void> {
  const { connection, params, name } = app
  const { project_id } = params
  const body = { app: params.app_id, database: await databaseNamed(app, database), variable }
  const link = await connection.client.links.create({ params: { project_id }, body })
  process.stdout.write(`${printable(`${link.variable} has the connection string of ${link.database_name}`)}\n`)
  process.stderr.write(deployAgain(name))
}

async function remove(app: NamedApp, variable: string): Promise<void> {
  const link = (await linksOf(app)).find((each) => each.variable === variable)
  if (link === undefined) throw new CommandError(`The app has no link with the variable ${variable}.`)
  const { project_id } = app.params
  await app.connection.client.links.delete({ params: { project_id, id: link.id } })
  process.stderr.write(deployAgain(app.name))
}

const deployAgain = (name: string): string =>
  `What runs stays as it is. To change it: fairlead env apply --app ${name}\n`

async function databaseNamed({ connection, params: { project_id } }: NamedApp, named: string): Promise<string> {
  if (isId('database', named)) return named
  const found: string[] = []
  for await (const { databases } of connection.client.databases.list.pages({ params: { project_id } })) {
    found.push(...databases.filter(({ name }) => name === named).map(({ id }) => id))
  }
  const [first, ...others] = found
  if (first === undefined) throw new CommandError(`The project has no database ${named}.`)
  if (others.length === 0) return first
  throw new CommandError(`The project has ${found.length} databases named ${named}. Give an id: ${found.join(', ')}`)
}
