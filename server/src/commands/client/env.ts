import { Command } from 'commander'
import type { BodyInput, ResponseBody } from '../../contract/client.ts'
import { variables as variablesSchema } from '../../contract/variables.ts'
import { CommandError } from './command-error.ts'
import { type Connection, type LocalServer, withLocalOption, withServer } from './connection.ts'
import { type DeploymentFlags, followToEnd } from './deploy.ts'
import { type AppParams, findAppParams, type Project } from './find-app.ts'
import { readVariables } from './input.ts'

interface EnvFlags extends DeploymentFlags {
  readonly app?: string
  readonly project?: string
  readonly dataDir?: string
}

interface ChangeFlags extends EnvFlags {
  readonly apply: boolean
  readonly plain?: boolean
}

type State = ResponseBody<'variables.list'>

interface AppOfServer {
  readonly connection: Connection
  readonly project: Project
  readonly name: string
  readonly params: AppParams
}

export function envCommand(local?: LocalServer): Command {
  return new Command('env')
    .description("list and change an app's variables; a change deploys the commit that serves again")
    .addCommand(listCommand(local), { isDefault: true })
    .addCommand(setCommand(local))
    .addCommand(unsetCommand(local))
    .addCommand(importCommand(local))
    .addCommand(copyCommand(local))
    .addCommand(
      described(new Command('apply'), 'deploy the commit that serves again, with the variables of now', local).action(
        (flags: EnvFlags) => withApp(local, flags, (app) => apply(app, flags)),
      ),
    )
}

const listCommand = (local: LocalServer | undefined): Command =>
  described(new Command('list'), 'print the variables; values of secret ones are never shown', local).action(
    (flags: EnvFlags) => withApp(local, flags, async (app) => print(await stateOf(app), flags)),
  )

const setCommand = (local: LocalServer | undefined): Command =>
  changing(new Command('set'), 'set variables', local)
    .argument('[NAME=value...]', 'the variables')
    .option('--file <path>', 'a .env file with variables, for values that nobody else should see')
    .option('--plain', 'let everybody read the values who may change them; without it new ones are secret')
    .action(async (given: string[], flags: ChangeFlags & { readonly file?: string }) => {
      const set = await readVariables(given, flags.file)
      if (Object.keys(set).length === 0) throw new CommandError('Give variables as NAME=value, or --file.')
      return change(local, flags, { set })
    })

const unsetCommand = (local: LocalServer | undefined): Command =>
  changing(new Command('unset'), 'remove variables', local)
    .argument('<NAME...>', 'the names')
    .action((unset: string[], flags: ChangeFlags) => change(local, flags, { unset }))

const importCommand = (local: LocalServer | undefined): Command =>
  changing(new Command('import'), 'set the variables of a .env file', local)
    .argument('<file>', 'the file')
    .option('--plain', 'let everybody read the values who may change them; without it new ones are secret')
    .action(async (file: string, flags: ChangeFlags) => change(local, flags, { set: await readVariables([], file) }))

const copyCommand = (local: LocalServer | undefined): Command =>
  changing(new Command('copy'), 'copy the variables of another app', local)
    .argument('<app>', 'the name of the app to copy from')
    .argument('[NAME...]', 'the names of the variables; all unless given')
    .option('--from-project <name>', 'the project of that app, if it is another one')
    .action((from: string, names: string[], flags: ChangeFlags & { readonly fromProject?: string }) =>
      withApp(local, flags, async (app) => {
        const source = await appOf(app.connection, {
          ...flags,
          app: from,
          project: flags.fromProject ?? app.project.id,
        })
        const { app_id: from_app, project_id: from_project } = source.params
        const body = { from: from_app, from_project, ...(names.length > 0 && { names }) }
        assertHas(await stateOf(source), names, from)
        await adopt(app)
        await finish(app, await app.connection.client.variables.copy({ params: app.params, body }), flags)
      }),
    )

function described(command: Command, description: string, local: LocalServer | undefined): Command {
  return withLocalOption(
    command
      .description(description)
      .option('--app <app>', 'the name of the app; without it, the app that this folder was deployed as')
      .option('--project <name>', 'the name or the id of the project')
      .option('--json', 'print the result as JSON'),
    local,
  )
}

const changing = (command: Command, description: string, local: LocalServer | undefined): Command =>
  described(command, `${description}, and deploy the commit that serves again`, local).option(
    '--no-apply',
    'change the variables only for further deployments',
  )

const withApp = (
  local: LocalServer | undefined,
  flags: EnvFlags,
  work: (app: AppOfServer) => Promise<void>,
): Promise<void> =>
  withServer(local, { dataDir: flags.dataDir, project: flags.project }, async (connection) =>
    work(await appOf(connection, flags)),
  )

async function appOf(connection: Connection, { app, project: named }: EnvFlags): Promise<AppOfServer> {
  return { connection, ...(await findAppParams(connection, { app, project: named, folder: '.' })) }
}

const stateOf = ({ connection, params }: AppOfServer): Promise<State> => connection.client.variables.list({ params })

/** Copies the deployment's variables to the app, because they would take precedence over a change of the app. */
const adopt = ({ connection, params }: AppOfServer): Promise<State> => connection.client.variables.adopt({ params })

/** Throws a `CommandError` for a variable of neither the app nor its deployment. */
function assertHas({ variables, env_vars }: State, names: readonly string[], app: string): void {
  const missing = names.find((name) => !env_vars.includes(name) && !variables.some((each) => each.name === name))
  if (missing !== undefined) throw new CommandError(`The app ${app} has no variable ${missing}.`)
}

/** Throws a `CommandError` for a name or value that the server would refuse. */
function assertValid(set: Readonly<Record<string, string>> = {}): void {
  const read = variablesSchema.safeParse(set)
  const [first] = read.error?.issues ?? []
  if (first !== undefined) throw new CommandError(`${first.path.join('.') || 'The variables'}: ${first.message}`)
}

function change(
  local: LocalServer | undefined,
  flags: ChangeFlags,
  body: Pick<BodyInput<'variables.update'>, 'set' | 'unset'>,
): Promise<void> {
  assertValid(body.set)
  return withApp(local, flags, async (app) => {
    assertHas(await stateOf(app), body.unset ?? [], app.name)
    await adopt(app)
    const kind = flags.plain ? { kind: 'plain' as const } : {}
    const { connection, params } = app
    await finish(app, await connection.client.variables.update({ params, body: { ...body, ...kind } }), flags)
  })
}

async function finish(app: AppOfServer, state: State, flags: ChangeFlags): Promise<void> {
  if (flags.apply) await apply(app, flags)
  else print(state, flags)
}

async function apply({ connection, project, params }: AppOfServer, flags: EnvFlags): Promise<void> {
  const { project_id, app_id: id } = params
  const created = await connection.client.apps.apply({ params: { project_id, id }, body: {} })
  await followToEnd(connection, project, created, flags)
}

function print(state: State, { json }: EnvFlags): void {
  if (json) return void process.stdout.write(`${JSON.stringify(state, null, 2)}\n`)
  const lines = new Map(state.env_vars.map((name) => [name, name]))
  for (const { name, value } of state.variables) {
    if (!lines.has(name)) lines.set(name, value === null ? name : `${name}=${JSON.stringify(value)}`)
  }
  for (const [, line] of [...lines].sort()) process.stdout.write(`${line}\n`)
  const { added, changed, removed } = state.pending
  const waiting = [...added, ...changed, ...removed].sort()
  if (waiting.length > 0) process.stderr.write(`Not applied yet: ${waiting.join(', ')}. Run: fairlead env apply\n`)
}
