import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { Command, Option } from 'commander'
import type { BodyInput } from '../../contract/client.ts'
import { parseImageReference } from '../../contract/image-reference.ts'
import { withCleanUp } from './clean-up.ts'
import { CommandError, Ended } from './command-error.ts'
import { type Connection, type LocalServer, withLocalOption, withServer } from './connection.ts'
import { reasonOfSilence } from './errors.ts'
import {
  type AppFlags,
  appCommand,
  type Deployment,
  findProject,
  latestOf,
  type Project,
  projectFor,
  withNamedApp,
} from './find-app.ts'
import { readVariables } from './input.ts'
import { followDeployment, printable } from './logs.ts'
import { bundleCommit, type LocalCommit, nameFor, readLink, readRepository, writeLink } from './repository.ts'
import { say, telling } from './wait.ts'

interface DeployFlags extends DeploymentFlags {
  readonly project?: string
  readonly name?: string
  readonly branch?: string
  readonly fromDeployment?: string
  readonly image?: string
  readonly volume?: readonly string[]
  readonly root?: string
  readonly env?: readonly string[]
  readonly envFile?: string
  readonly dataDir?: string
}

export function deployCommand(local?: LocalServer): Command {
  const command = new Command('deploy')
    .description('deploy the committed state of a folder, or a repository by its address, and follow it')
    .argument('[source]', 'a folder with a git repository, or the address of one', '.')
    .option('--project <name>', 'the name or the id of the project; made if there is none of this name')
    .option('--name <app>', 'the name of the app; by default the name of the folder or repository')
    .option('--branch <branch>', 'the branch of an address; its default branch unless given')
    .option(
      '--from-deployment <id>',
      'release the files of this deployment of any app, as they were built and tested; needs --name',
    )
    .option('--image <reference>', 'deploy a container image, registry/name:tag or registry/name@sha256:…')
    .option(
      '--volume <name=path...>',
      'with --image: folders that the app keeps over releases, such as uploads=/var/lib/uploads, in place of those it has',
    )
    .option('--root <folder>', 'the folder of the app in the repository; by default as in its latest deployment')
    .addOption(new Option('--env <NAME=value...>', "the app's variables, beside those that it has"))
    .option(
      '--env-file <path>',
      'a .env file with variables; other users can see arguments of a command, but not this file',
    )
    .option('--json', 'print the deployment as JSON in place of its address')
    .addHelpText(
      'after',
      '\nThe command uses the server of FAIRLEAD_URL and FAIRLEAD_API_KEY, of fairlead login, or on this machine.\n' +
        'A job of GitLab CI, Forgejo Actions, GitHub Actions, Buildkite or CircleCI needs no key: its own identity is enough\n' +
        'for a project that trusts it, which --project names by its id.\n' +
        'Exits with 0 when the app runs and with 1 when it does not.',
    )
  return withLocalOption(command, local).action((source: string, flags: DeployFlags) =>
    withServer(local, flags, (connection) => {
      if (flags.volume !== undefined && flags.image === undefined) {
        throw new CommandError('--volume is for --image. In a repository, fairlead.json names the volumes.')
      }
      if (flags.fromDeployment !== undefined) return promote(connection, source, flags.fromDeployment, flags)
      if (flags.image !== undefined) return deployImage(connection, source, flags.image, flags)
      return isAddress(source) ? deployAddress(connection, source, flags) : deployFolder(connection, source, flags)
    }),
  )
}

interface PromoteFlags extends AppFlags, DeploymentFlags {
  readonly to: string
  readonly toProject?: string
}

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

export function warnOfChanges({ changed }: LocalCommit): void {
  if (changed === 0) return
  const files = changed === 1 ? '1 file has changes that are' : `${changed} files have changes that are`
  process.stderr.write(`warning: ${files} not committed. They are not deployed.\n`)
}

/** Returns the id of the source for a deployment. */
export async function uploadCommit({ client }: Connection, { id }: Project, local: LocalCommit): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'fairlead-deploy-'))
  return withCleanUp(
    () => rm(folder, { recursive: true, force: true }),
    async () => {
      const body = await telling('packing the source', () => bundleCommit(local, folder))
      return (await client.sources.create({ params: { project_id: id }, body })).id
    },
  )
}

export interface DeploymentFlags {
  readonly json?: boolean
}

export async function runDeployment(
  connection: Connection,
  project: Project,
  body: BodyInput<'deployments.create'>,
  flags: DeploymentFlags,
): Promise<void> {
  const created = await connection.client.deployments.create({ params: { project_id: project.id }, body })
  await followToEnd(connection, project, created, flags)
}

/**
 * Follows a deployment to its end: the log on standard error; the address, or the deployment as JSON, on standard
 * output. The exit status is 0 when the deployment runs, 1 when it does not, and 130 after Ctrl+C, which ends only this
 * command.
 */
export async function followToEnd(
  { client }: Connection,
  project: Project,
  { id, name }: Pick<Deployment, 'id' | 'name'>,
  { json }: DeploymentFlags,
): Promise<void> {
  const interrupted = new AbortController()
  const interrupt = () => interrupted.abort()
  process.once('SIGINT', interrupt)
  const print = (line: string) => process.stderr.write(`  ${printable(line)}\n`)
  const params = { project_id: project.id, id }
  const goesOn =
    `The deployment ${id} goes on. To follow it again: fairlead logs -f ${shown(name)}\n` +
    `To cancel it: fairlead api deployments.cancel --project-id ${project.id} --id ${id}\n`
  const log = { params, print, say, signal: interrupted.signal }
  const outcome = await followDeployment(client, log)
    .catch((error: unknown) => {
      if (reasonOfSilence(error) !== undefined) process.stderr.write(goesOn)
      throw error
    })
    .finally(() => process.off('SIGINT', interrupt))
  if (outcome === undefined) {
    process.stderr.write(`\n${goesOn}`)
    throw new Ended(130)
  }
  // Since the start of the command, so with the upload.
  const seconds = process.uptime().toFixed(1)
  const steps = stepTimes(outcome)
  if (steps !== '') process.stderr.write(`${steps}\n`)
  if (json) process.stdout.write(`${JSON.stringify(outcome, null, 2)}\n`)
  report(outcome, seconds, json ?? false)
}

/** Releases the files of another deployment. The app keeps its variables. */
async function promote(connection: Connection, source: string, from_deployment_id: string, flags: DeployFlags) {
  const { name } = flags
  if (name === undefined) throw new CommandError('Give the name of the app with --name.')
  assertOnlySource('--from-deployment', source, flags)
  const variables = await variablesFor(flags)
  const project = await projectFor(connection.client, { named: flags.project, link: undefined, name })
  announce(connection, name, project)
  await runDeployment(connection, project, { name, from_deployment_id, ...variables }, flags)
}

/** Deploys a container image. The app has the name of the image unless the flags name another app. */
async function deployImage(connection: Connection, source: string, image: string, flags: DeployFlags): Promise<void> {
  assertOnlySource('--image', source, flags)
  const reference = parseImageReference(image)
  if ('problem' in reference) throw new CommandError(`--image ${reference.problem}`)
  const more = { ...volumesFor(flags), ...(await variablesFor(flags)) }
  const name = flags.name ?? basename(reference.path)
  const project = await projectFor(connection.client, { named: flags.project, link: undefined, name })
  announce(connection, name, project)
  await runDeployment(connection, project, { name, image, ...more }, flags)
}

/** @throws CommandError for a volume without a name and a path; the server checks the rest */
function volumesFor({ volume }: DeployFlags): { volumes?: Record<string, string> } {
  if (volume === undefined) return {}
  const parse = (text: string): [string, string] => {
    const [, name, path] = /^([^=]+)=(\/.*)$/.exec(text) ?? []
    if (name === undefined || path === undefined) {
      throw new CommandError(`--volume ${text}: give a name and a path, such as uploads=/var/lib/uploads.`)
    }
    return [name, path]
  }
  return { volumes: Object.fromEntries(volume.map(parse)) }
}

function assertOnlySource(option: string, source: string, { branch, root, image, fromDeployment }: DeployFlags): void {
  const both = image !== undefined && fromDeployment !== undefined
  if (source === '.' && branch === undefined && root === undefined && !both) return
  const others = ['--branch', '--root', '--from-deployment', '--image'].filter((other) => other !== option).join(', ')
  throw new CommandError(`${option} has its own source: give no folder or address, and none of ${others}.`)
}

/** True for git addresses, also `user@host:path`, that are not local folders. */
const isAddress = (source: string): boolean =>
  /^[a-z][a-z+]*:\/\//i.test(source) || (/^[\w.-]+@[\w.-]+:/.test(source) && !existsSync(source))

async function deployAddress(connection: Connection, git_url: string, flags: DeployFlags): Promise<void> {
  const variables = await variablesFor(flags)
  const name = flags.name ?? nameFor(git_url)
  const project = await projectFor(connection.client, { named: flags.project, link: undefined, name })
  announce(connection, name, project)
  const source = { git_url, ...(flags.branch === undefined ? {} : { branch: flags.branch }) }
  const latest = await latestOf(connection.client, project.id, name)
  await runDeployment(connection, project, { name, ...source, ...rootFor(latest, flags), ...variables }, flags)
}

async function deployFolder(connection: Connection, folder: string, flags: DeployFlags): Promise<void> {
  if (flags.branch !== undefined) {
    throw new CommandError('--branch is for addresses. A folder is deployed with the branch that is checked out.')
  }
  const { client, baseUrl, job } = connection
  const checkedOut = await readRepository(folder)
  const variables = await variablesFor(flags)
  // CI jobs check out a commit without its branch.
  const local = { ...checkedOut, branch: checkedOut.branch ?? job?.branch ?? null }
  const stored = await readLink(local.root)
  const link = stored?.url === baseUrl ? stored : undefined
  // The link names an app of the linked project only.
  const ofLink = flags.project === undefined ? link?.app : undefined
  const name = flags.name ?? ofLink ?? job?.repository ?? nameFor(local.root)
  const project = await projectFor(client, { named: flags.project, link, name })
  announce(connection, name, project, local)
  const latest = await latestOf(client, project.id, name)
  const source_id = await uploadCommit(connection, project, local)
  await writeLink(local.root, { url: baseUrl, project: project.id, app: name })
  await runDeployment(connection, project, { name, source_id, ...rootFor(latest, flags), ...variables }, flags)
}

function announce(
  { baseUrl }: Connection,
  name: string,
  project: Project & { isNew: boolean },
  local?: LocalCommit,
): void {
  const what =
    local === undefined ? '' : `, commit ${local.commit.slice(0, 12)}${local.branch ? ` of ${local.branch}` : ''}`
  const where = `${project.isNew ? 'the new project' : 'the project'} ${project.name} at ${baseUrl.replace(/\/v1$/, '')}`
  process.stderr.write(`Deploying ${name} to ${where}${what}\n`)
  if (local !== undefined) warnOfChanges(local)
}

const rootFor = (latest: Deployment | undefined, { root = latest?.root ?? undefined }: DeployFlags) =>
  root === undefined ? {} : { root }

async function variablesFor({
  env = [],
  envFile,
}: DeployFlags): Promise<Pick<BodyInput<'deployments.create'>, 'env_vars' | 'env_vars_for'>> {
  return { env_vars: await readVariables(env, envFile), env_vars_for: 'app' }
}

function stepTimes({ steps }: Pick<Deployment, 'steps'>): string {
  return steps
    .flatMap(({ name, started_at, finished_at }) => {
      if (finished_at === null) return []
      return `${name} ${((Date.parse(finished_at) - Date.parse(started_at)) / 1000).toFixed(1)} s`
    })
    .join(' · ')
}

function report({ status, url, failure, name }: Deployment, seconds: string, json: boolean): void {
  if (status === 'running') {
    process.stderr.write(`${name} runs after ${seconds} s at:\n`)
    if (!json) process.stdout.write(`${url}\n`)
    return
  }
  process.exitCode = 1
  const reason = failure === null ? '' : `, in the step ${failure.stage} (${failure.code}):\n${failure.message}`
  const lines = `${name} is ${status} after ${seconds} s${reason}`.split('\n').map(printable)
  process.stderr.write(`${lines.join('\n')}\n`)
}

const shown = (name: string): string => (/^[\w.-]+$/.test(name) ? name : JSON.stringify(name))
