import { Command } from 'commander'
import type { Client, ResponseBody } from '../../contract/client.ts'
import { ApiError } from '../../contract/errors.ts'
import { isId } from '../../contract/ids.ts'
import { CommandError } from './command-error.ts'
import { type Connection, type LocalServer, withLocalOption, withServer } from './connection.ts'
import { type Link, readLink } from './repository.ts'

export interface Project {
  readonly id: string
  readonly name: string
}

export type Deployment = ResponseBody<'deployments.get'>

export interface AppParams {
  readonly project_id: string
  readonly app_id: string
}

export interface FoundApp {
  readonly project: Project
  readonly latest: Deployment
}

/** Finds a project by id or name. Throws a `CommandError` when several projects have the name. */
export async function findProject(client: Client, named: string): Promise<Project | undefined> {
  if (isId('project', named)) return client.projects.get({ params: { project_id: named } })
  const same = (await allProjects(client)).filter(({ name }) => name === named)
  if (same.length > 1) {
    const ids = same.map(({ id }) => id).join(', ')
    throw new CommandError(`There are ${same.length} projects named ${named}. Give --project with an id: ${ids}`)
  }
  return same[0]
}

/**
 * Finds or creates the project to deploy to: the named project, the linked project, or a project with the name of the
 * app.
 */
export async function projectFor(
  client: Client,
  given: { readonly named: string | undefined; readonly link: Link | undefined; readonly name: string },
): Promise<Project & { readonly isNew: boolean }> {
  const linked =
    given.named === undefined && given.link !== undefined ? await linkedProject(client, given.link) : undefined
  if (linked !== undefined) return { ...linked, isNew: false }
  const name = given.named ?? given.name
  const found = await findProject(client, name)
  if (found !== undefined) return { ...found, isNew: false }
  return { ...(await client.projects.create({ body: { name } })), isNew: true }
}

/** Returns undefined for a linked project that was deleted, or that this key cannot see. */
async function linkedProject(client: Client, { project }: Link): Promise<Project | undefined> {
  return client.projects.get({ params: { project_id: project } }).catch((error: unknown) => {
    if (error instanceof ApiError && (error.code === 'not_found' || error.code === 'forbidden')) return undefined
    throw error
  })
}

export async function latestOf(client: Client, project_id: string, app: string): Promise<Deployment | undefined> {
  const found = await findDeployment(client, project_id, app)
  return found && client.deployments.get({ params: { project_id, id: found.id } })
}

async function findDeployment(client: Client, project_id: string, app: string) {
  for await (const { deployments } of client.deployments.list.pages({ params: { project_id } })) {
    const found = deployments.find(({ name }) => name === app)
    if (found !== undefined) return found
  }
  return undefined
}

/**
 * Finds a deployed app by its name or by the folder's link. Without `--project` and a link, searches all projects.
 * Throws a `CommandError` unless there is exactly one.
 */
export async function findApp(
  { client, baseUrl }: Connection,
  given: { readonly app: string | undefined; readonly project: string | undefined; readonly folder: string },
): Promise<FoundApp> {
  const stored = await readLink(given.folder)
  const link = stored?.url === baseUrl ? stored : undefined
  const name = given.app ?? link?.app
  if (name === undefined) {
    throw new CommandError(
      'This folder was not deployed from here yet. Give the name of an app, or run fairlead deploy.',
    )
  }
  const found: FoundApp[] = []
  for (const project of await projectsToSearch(client, given.project, link)) {
    const latest = await latestOf(client, project.id, name)
    if (latest !== undefined) found.push({ project, latest })
  }
  const [first, ...others] = found
  if (first === undefined) throw new CommandError(`There is no app ${name}.`)
  if (others.length === 0) return first
  const projects = found.map(({ project }) => `${project.name} (${project.id})`).join(', ')
  throw new CommandError(`Several projects have an app ${name}: ${projects}. Give --project.`)
}

/** Finds an app as `findApp` does, and returns its project and the path parameters of its operations. */
export async function findAppParams(
  connection: Connection,
  given: Parameters<typeof findApp>[1],
): Promise<{ readonly project: Project; readonly name: string; readonly params: AppParams }> {
  const { project, latest } = await findApp(connection, given)
  const { name } = latest
  for await (const { apps } of connection.client.apps.list.pages({ params: { project_id: project.id } })) {
    const found = apps.find((app) => app.name === name)
    if (found !== undefined) return { project, name, params: { project_id: project.id, app_id: found.id } }
  }
  throw new CommandError(`There is no app ${name}.`)
}

/** Finds the named project, the linked project of the folder, or the only project. Throws a `CommandError`. */
export async function findOneProject(
  { client, baseUrl }: Connection,
  given: { readonly project: string | undefined; readonly folder: string },
): Promise<Project> {
  const stored = await readLink(given.folder)
  const [found, ...others] = await projectsToSearch(client, given.project, stored?.url === baseUrl ? stored : undefined)
  if (found === undefined) throw new CommandError('There is no project yet.')
  if (others.length > 0) throw new CommandError('There are several projects. Give --project.')
  return found
}

async function projectsToSearch(client: Client, named: string | undefined, link: Link | undefined): Promise<Project[]> {
  if (named !== undefined) {
    const project = await findProject(client, named)
    if (project === undefined) throw new CommandError(`There is no project ${named}.`)
    return [project]
  }
  const linked = link === undefined ? undefined : await linkedProject(client, link)
  return linked === undefined ? allProjects(client) : [linked]
}

async function allProjects(client: Client): Promise<Project[]> {
  const projects: Project[] = []
  for await (const page of client.projects.list.pages()) projects.push(...page.projects)
  return projects
}

export interface AppFlags {
  readonly project?: string
  readonly dataDir?: string
}

export interface NamedApp {
  readonly connection: Connection
  readonly project: Project
  readonly name: string
  readonly params: AppParams
}

export const appCommand = (name: string, description: string, local: LocalServer | undefined): Command =>
  withLocalOption(
    new Command(name)
      .description(description)
      .argument('<app>', 'the name of the app')
      .option('--project <name>', 'the name or the id of the project'),
    local,
  )

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
