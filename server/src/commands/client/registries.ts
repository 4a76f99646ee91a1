import { Command } from 'commander'
import { CommandError } from './command-error.ts'
import { type Connection, type LocalServer, withLocalOption, withServer } from './connection.ts'
import { findOneProject } from './find-app.ts'
import { secretOfInput } from './input.ts'
import { printable } from './logs.ts'

interface RegistryFlags {
  readonly project?: string
  readonly dataDir?: string
}

type Params = { readonly project_id: string }
type At = (flags: RegistryFlags, work: (connection: Connection, params: Params) => Promise<void>) => Promise<void>

export function registriesCommand(local?: LocalServer): Command {
  const part = (name: string, description: string) =>
    withLocalOption(
      new Command(name)
        .description(description)
        .option(
          '--project <name>',
          'the name or the id of the project; by default the project of the folder, or your only project',
        ),
      local,
    )
  const at: At = (flags, work) =>
    withServer(local, flags, async (connection) => {
      const { id } = await findOneProject(connection, { project: flags.project, folder: '.' })
      await work(connection, { project_id: id })
    })
  return new Command('registries')
    .description("store a project's credentials for registries of container images")
    .addCommand(
      part('list', 'print the registries that a project has credentials for').action((flags: RegistryFlags) =>
        at(flags, list),
      ),
    )
    .addCommand(
      part('add', 'store a password, or better a token that may only pull, read from standard input')
        .argument('<registry>', 'the host of the registry, with its port if it has one: docker.io for Docker Hub')
        .requiredOption('--username <name>', 'the user name')
        .action((registry: string, { username, ...flags }: RegistryFlags & { readonly username: string }) =>
          at(flags, async ({ client }, params) => {
            const example = 'fairlead registries add registry.example.com --username deploy < token.txt'
            const password = await secretOfInput('password', example)
            await client.registries.set({ params, body: { registry, username, password } })
          }),
        ),
    )
    .addCommand(
      part('remove', 'delete the credentials for a registry')
        .argument('<registry>', 'the host of the registry, as the list has it')
        .action((registry: string, flags: RegistryFlags) =>
          at(flags, (connection, params) => remove(connection, params, registry)),
        ),
    )
}

async function list(connection: Connection, params: Params): Promise<void> {
  for await (const { registry, username, created_at } of stored(connection, params)) {
    process.stdout.write(`${printable([registry, username, `since ${created_at}`].join('\t'))}\n`)
  }
}

async function remove(connection: Connection, params: Params, registry: string): Promise<void> {
  for await (const { id, registry: host } of stored(connection, params)) {
    if (host !== registry) continue
    await connection.client.registries.delete({ params: { ...params, id } })
    return
  }
  throw new CommandError(`The project has no credentials for ${registry}.`)
}

async function* stored({ client }: Connection, params: Params) {
  for await (const { registries } of client.registries.list.pages({ params })) yield* registries
}
