import { Command } from 'commander'
import { variablesOfEnvironment } from '../../../platform/config/client.ts'
import { type Project, projectFor } from '../apps.ts'
import { CommandError } from '../command-error.ts'
import { withServer } from '../connection.ts'
import { printable } from '../follow.ts'
import { type LocalServer, withLocalOption } from '../local.ts'
import { nameFor } from '../repository.ts'
import { carryOut, sourceOf } from './carry-out.ts'
import { readComposeFile } from './file.ts'
import { type ImportPlan, planImport } from './plan.ts'

interface ImportFlags {
  readonly project?: string
  readonly dryRun?: boolean
  readonly dataDir?: string
}

/** `fairlead import compose [FILE]` */
export function importCommand(local?: LocalServer): Command {
  const compose = new Command('compose')
    .description('make apps, databases and volumes of the services of a compose file, and say what is not carried over')
    .argument('[file]', 'the file, or the folder that it is in', '.')
    .option('--project <name>', 'the name or the id of the project; made if there is none of this name')
    .option('--dry-run', 'print what would be made, and make nothing')
    .addHelpText(
      'after',
      '\nServices with an image become apps, those with a build apps of the commit that is checked out, and those of PostgreSQL\n' +
        'databases, which are linked to the apps that use them. Variables in the file have the values of the environment and\n' +
        'of the .env beside it. What the project has already, by its name, stays as it is: the command can be run again.',
    )
  withLocalOption(compose, local).action((given: string, flags: ImportFlags) => importCompose(local, given, flags))
  return new Command('import').description('bring what runs elsewhere').addCommand(compose)
}

async function importCompose(local: LocalServer | undefined, given: string, flags: ImportFlags): Promise<void> {
  const file = await readComposeFile(given, variablesOfEnvironment())
  const plan = planImport(file)
  if (flags.dryRun) {
    process.stdout.write(textOf(plan))
    return
  }
  if (plan.apps.length + plan.databases.length === 0) {
    throw new CommandError(`The compose file has nothing that can be brought.\n${textOf(plan)}`)
  }
  const source = await sourceOf(plan.apps, file.folder)
  await withServer(local, flags, async (connection) => {
    const name = nameFor(file.folder)
    const project: Project = await projectFor(connection.client, { named: flags.project, link: undefined, name })
    process.stderr.write(textOf(plan))
    await carryOut(connection, project, { plan, source })
  })
}

function textOf({ databases, apps, notes }: ImportPlan): string {
  const lines = [
    ...databases.map(({ name, version }) => `database ${name}${version === null ? '' : `, PostgreSQL ${version}`}`),
    ...apps.map(
      ({ name, source }) =>
        `app ${name}, of ${'image' in source ? `the image ${source.image}` : `the folder ${source.folder}`}`,
    ),
    ...(notes.length === 0 ? [] : ['Not carried over, or changed:', ...notes.map((note) => `  ${note}`)]),
  ]
  return lines.map((line) => `${printable(line)}\n`).join('')
}
