import { realpath } from 'node:fs/promises'
import { normalize, relative, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Command } from 'commander'
import type { Client } from '../../../contract/client.ts'
import { ApiError } from '../../../contract/errors.ts'
import { variablesOfEnvironment } from '../../../platform/config/client.ts'
import { CommandError } from '../command-error.ts'
import { type Connection, type LocalServer, withLocalOption, withServer } from '../connection.ts'
import { runDeployment, uploadCommit, warnOfChanges } from '../deploy.ts'
import { type Project, projectFor } from '../find-app.ts'
import { printable } from '../logs.ts'
import { folderOfRepository, type LocalCommit, nameFor, readFileOfCommit, readRepository } from '../repository.ts'
import { telling } from '../wait.ts'
import { readComposeFile } from './file.ts'
import { type AppToImport, type DatabaseToImport, type ImportPlan, planImport, saysAll } from './plan.ts'

interface ImportFlags {
  readonly project?: string
  readonly dryRun?: boolean
  readonly dataDir?: string
}

export function importCommand(local?: LocalServer): Command {
  const compose = new Command('compose')
    .description('make apps, databases and volumes of the services of a compose file, and say what is not carried over')
    .argument('[file]', 'the file, or the folder that it is in', '.')
    .option('--project <name>', 'the name or the id of the project; made if there is none of this name')
    .option('--dry-run', 'print what would be made, and make nothing')
    .addHelpText(
      'after',
      '\nServices with an image become apps, services with a build become apps of the commit that is checked out, and PostgreSQL\n' +
        'services become databases, which are linked to the apps that use them. Variables in the file have the values of the environment and\n' +
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

type Params = { readonly project_id: string }

/**
 * Creates the databases and apps of a plan, and follows the deployments. Databases and apps that already exist stay
 * unchanged, except an app whose deployments have all failed: it is deployed again with its variables.
 */
export async function carryOut(
  connection: Connection,
  project: Project,
  { plan, source }: { readonly plan: ImportPlan; readonly source: LocalSource | null },
): Promise<void> {
  const { client } = connection
  const params = { project_id: project.id }
  const databases = await existingDatabases(client, params)
  for (const database of plan.databases) {
    if (databases.has(database.name)) say(`The database ${database.name} is there already.`)
    else databases.set(database.name, await createDatabase(client, params, database))
  }
  const apps = await existingApps(client, params)
  for (const app of plan.apps) {
    const there = apps.get(app.name)
    if (there !== undefined && !there.hasFailed) say(`The app ${app.name} is there already.`)
    else await deploy(connection, project, { app, isNew: there === undefined, databases, source }).catch(leaveOut(app))
  }
}

/** Continues with the other apps when the server refuses an app, for example because of a limit of the plan. */
const leaveOut =
  ({ name }: AppToImport) =>
  (error: unknown): void => {
    if (!(error instanceof ApiError) || error.code !== 'invalid_request') throw error
    say(`warning: ${name} is not deployed: ${error.message}`)
    process.exitCode = 1
  }

const say = (line: string): void => void process.stderr.write(`${line}\n`)

async function existingDatabases(client: Client, params: Params): Promise<Map<string, string>> {
  const found = new Map<string, string>()
  for await (const page of client.databases.list.pages({ params })) {
    for (const { name, id } of page.databases) found.set(name, id)
  }
  return found
}

interface ExistingApp {
  readonly id: string
  readonly hasFailed: boolean
}

async function existingApps(client: Client, params: Params): Promise<Map<string, ExistingApp>> {
  const found = new Map<string, ExistingApp>()
  for await (const page of client.apps.list.pages({ params })) {
    for (const { name, id, serving, latest } of page.apps) {
      const hasFailed = serving === null && (latest?.status === 'failed' || latest?.status === 'canceled')
      found.set(name, { id, hasFailed })
    }
  }
  return found
}

/**
 * Creates a database with the version of the file, or with the newest version when the server does not have that
 * version.
 */
async function createDatabase(client: Client, params: Params, { name, version }: DatabaseToImport): Promise<string> {
  const create = (given: { readonly version?: string }) => client.databases.create({ params, body: { name, ...given } })
  const created = await (version === null ? create({}) : create({ version })).catch((error: unknown) => {
    if (!(error instanceof ApiError) || error.details['field'] !== 'version') throw error
    return create({})
  })
  say(`The database ${name} is created, with PostgreSQL ${created.version}.`)
  if (version !== null && version !== created.version) say(`warning: this server has no PostgreSQL ${version}.`)
  await telling(`creating the database ${name}`, () => untilAvailable(client, { ...params, id: created.id }))
  return created.id
}

/** The time limit for a new database. A server may first install PostgreSQL and create a cluster. */
const databaseMs = 15 * 60_000

async function untilAvailable(client: Client, params: Params & { readonly id: string }): Promise<void> {
  const until = performance.now() + databaseMs
  for (;;) {
    const { status, failure, name } = await client.databases.get({ params })
    if (status === 'available') return
    if (status !== 'provisioning')
      throw new CommandError(`The database ${name} is ${status}: ${failure?.message ?? ''}`)
    if (performance.now() > until) {
      throw new CommandError(`The database ${name} is not available after 15 min. Run this command again to go on.`)
    }
    await sleep(250)
  }
}

async function deploy(
  connection: Connection,
  project: Project,
  given: { app: AppToImport; isNew: boolean; databases: ReadonlyMap<string, string>; source: LocalSource | null },
): Promise<void> {
  const { app, isNew, databases } = given
  const { name, source, variables, volumes, instances } = app
  const params = { project_id: project.id }
  const linked = Object.entries(app.databases).flatMap(([variable, service]): [string, string][] => {
    const id = databases.get(service)
    return id === undefined ? [] : [[variable, id]]
  })
  const surroundings = {
    env_vars: { ...variables },
    env_vars_for: 'app',
    databases: Object.fromEntries(linked),
  } as const
  const body = { name, ...(isNew ? surroundings : {}) }
  if ('image' in source) {
    say(`Deploying ${name}`)
    await runDeployment(connection, project, { ...body, image: source.image, volumes: { ...volumes } }, {})
  } else if (given.source !== null) {
    const { local, rootOf } = given.source
    const root = await rootOf(source.folder)
    if (!(await isSettled(local, root, app))) return
    say(`Deploying ${name}, commit ${local.commit.slice(0, 12)}`)
    warnOfChanges(local)
    const source_id = await uploadCommit(connection, project, local)
    await runDeployment(connection, project, { ...body, source_id, root }, {})
  }
  if (instances > 1) await scale(connection.client, params, { name, instances })
}

/** Sets the number of instances of an app. The import goes on when the plan does not allow this number. */
async function scale(client: Client, params: Params, { name, instances }: Pick<AppToImport, 'name' | 'instances'>) {
  const app_id = (await existingApps(client, params)).get(name)?.id
  if (app_id === undefined) return
  const body = { processes: { web: { instances } } }
  await client.processes.update({ params: { ...params, app_id }, body }).catch((error: unknown) => {
    if (!(error instanceof ApiError)) throw error
    say(`warning: ${name} has one instance in place of ${instances}: ${error.message}`)
  })
}

/** The commit that all builds of a compose file use. */
export interface LocalSource {
  readonly local: LocalCommit
  /** Returns the folder of a build context, relative to the top of the repository. */
  readonly rootOf: (context: string) => Promise<string>
}

/**
 * Finds the commit that is checked out in the folder of a compose file; null when no app has a build.
 *
 * @throws CommandError
 */
export async function sourceOf(apps: readonly AppToImport[], folder: string): Promise<LocalSource | null> {
  if (apps.every(({ source }) => 'image' in source)) return null
  const local = await readRepository(await folderOfRepository(folder))
  // Git returns the top folder without symbolic links.
  const real = await realpath(folder)
  const rootOf = async (context: string) => {
    const path = resolve(real, context)
    return relative(local.root, await realpath(path).catch(() => path)) || '.'
  }
  return { local, rootOf }
}

/** Keys of `fairlead.json` that change how a folder is built or run. */
const decisiveKeys = ['builder', 'dockerfile', 'build', 'start', 'processes', 'volumes', 'cron']

/** Prints the problem and returns false when the repository's `fairlead.json` does not suit an app. */
async function isSettled(local: LocalCommit, root: string, { name, settings }: AppToImport): Promise<boolean> {
  const found = parsed(await readFileOfCommit(local, 'fairlead.json'))
  const rootOfFound = typeof found['root'] === 'string' ? normalize(found['root']).replace(/\/$/, '') : '.'
  const isOfOther = rootOfFound !== root && decisiveKeys.some((key) => Object.hasOwn(found, key))
  const needed = { ...(root === '.' ? {} : { root }), ...settings }
  if (!isOfOther && (settings === null || saysAll(found, needed))) return true
  say(
    isOfOther
      ? `warning: ${name} is not deployed: the fairlead.json of the repository is for the folder ${rootOfFound}, and would count for ${root}, too. Deploy it as an image.`
      : `warning: ${name} is not deployed: its build needs a fairlead.json at the top of the repository that says\n` +
          `${JSON.stringify(needed, null, 2)}\nCommit it and run this command again. A repository has one fairlead.json: deploy further apps that need one as images.`,
  )
  process.exitCode = 1
  return false
}

/** Returns the keys of a `fairlead.json`; empty without a file, and for a file that the deployment will refuse. */
function parsed(text: string | null): Readonly<Record<string, unknown>> {
  try {
    return Object(JSON.parse(text ?? '{}')) as Record<string, unknown>
  } catch {
    return {}
  }
}
