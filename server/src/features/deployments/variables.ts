import { ApiError, type FieldProblem, invalidRequest, notFound } from '../../contract/errors.ts'
import { isId } from '../../contract/ids.ts'
import type { BodyOutput, ResponseBody } from '../../contract/operations.ts'
import { mostVariables } from '../../contract/variables.ts'
import type { HandlersOf } from '../../http/call.ts'
import { isAuthorized, mayUseProject, type Principal, type TenantProject } from '../../http/principal.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import type { Plans } from '../../platform/plans.ts'
import type { RuntimeNames } from '../../runtimes/names.ts'
import type { App, OwnedApps } from './app-directory.ts'
import { type AppVariables, sourceOfSecrets } from './app-variables.ts'
import {
  type AddRelease,
  assertMayAddApp,
  type DeploymentSource,
  imageSource,
  noSource,
  promotedSource,
  type RepositoryToCheck,
  triggerOf,
} from './create.ts'
import type { SourcesOf } from './links.ts'
import type { UrlOf } from './outcome.ts'
import { itemOf } from './presentation.ts'
import { currentRelease } from './reads.ts'
import { type AppVariable, changesBetween, givenOf, releaseVariables, type Variables } from './release-variables.ts'
import type { DeploymentStore } from './rows.ts'
import type { DeploymentSecrets } from './secrets.ts'
import { sourceOf } from './source-of.ts'
import type { DeploymentRow } from './tables.ts'

export function variableHandlers(variables: VariableRequests): HandlersOf<'variables'> {
  return {
    'variables.list': ({ principal, project, params }) => variables.list({ principal, project, appId: params.app_id }),
    'variables.update': ({ transaction, principal, project, params, body }) =>
      variables.update(transaction, { principal, project, appId: params.app_id }, body),
    'variables.copy': ({ transaction, principal, project, params, body }) =>
      variables.copy(transaction, { principal, project, appId: params.app_id }, body),
    'variables.adopt': ({ transaction, principal, project, params }) =>
      variables.adopt(transaction, { principal, project, appId: params.app_id }),
  }
}

type State = ResponseBody<'variables.list'>

interface AppRequest {
  readonly principal: Principal
  readonly project: TenantProject
  readonly appId: string
}

/** Reads and changes of apps' variables, for owners. All throw `not_found` for the app. */
interface VariableRequests {
  list(app: AppRequest): Promise<State>
  /** Throws `invalid_request` for unknown names, and for too many variables. */
  update(transaction: Transaction, app: AppRequest, body: BodyOutput<'variables.update'>): Promise<State>
  /** Throws `invalid_request` for an app that does not exist or that the caller may not use. */
  copy(transaction: Transaction, app: AppRequest, body: BodyOutput<'variables.copy'>): Promise<State>
  adopt(transaction: Transaction, app: AppRequest): Promise<State>
}

interface VariableRequestDependencies {
  readonly database: Database
  readonly apps: Pick<OwnedApps, 'find'>
  readonly hold: (transaction: Transaction, project: TenantProject, appId: string) => Promise<unknown>
  readonly store: Pick<DeploymentStore, 'releases' | 'requests'>
  readonly secrets: Pick<DeploymentSecrets, 'variablesOf'>
  readonly appVariables: AppVariables
  readonly sourcesOf: SourcesOf
  readonly findProject: (accountId: string, projectId: string, on: Transaction) => Promise<TenantProject | undefined>
}

export function createVariableRequests(dependencies: VariableRequestDependencies): VariableRequests {
  const { database, apps, appVariables } = dependencies

  const hold = (transaction: Transaction, { project, appId }: AppRequest) =>
    dependencies.hold(transaction, project, appId)

  return {
    async list(app) {
      if ((await apps.find(database, app.project.id, app.appId)) === undefined) throw notFound()
      return stateOf(dependencies, database, app)
    },

    async update(transaction, app, body) {
      await hold(transaction, app)
      const source = await sourceOfSecrets(dependencies.store.releases, transaction, app.appId)
      const { set, removed } = changeOf(body, { existing: await appVariables.of(transaction, app.appId), source })
      await appVariables.remove(transaction, app.appId, removed)
      await appVariables.set(transaction, app.appId, set)
      await assertFits(appVariables, transaction, app.appId, 'set')
      return stateOf(dependencies, transaction, app)
    },

    async copy(transaction, app, { names, ...body }) {
      await hold(transaction, app)
      const from = await appToCopy(dependencies, transaction, app, body)
      const copied = await takenAlong(dependencies, transaction, { ...app, from }, names)
      await appVariables.set(transaction, app.appId, copied)
      await assertFits(appVariables, transaction, app.appId, 'from')
      return stateOf(dependencies, transaction, app)
    },

    async adopt(transaction, app) {
      await hold(transaction, app)
      await createAdoption(dependencies)(transaction, app.appId)
      return stateOf(dependencies, transaction, app)
    },
  }
}

interface GivenToNext {
  readonly given: Variables
  readonly source: string
}

/**
 * Returns the function that turns the variables of the app's current and next deployments into secret variables of the
 * app; they belong to the sources of those deployments. The caller holds the app's lock. Throws `invalid_request` for
 * too many variables.
 */
export function createAdoption({
  store,
  secrets,
  appVariables,
  sourcesOf,
}: Pick<VariableRequestDependencies, 'store' | 'secrets' | 'appVariables' | 'sourcesOf'>) {
  return async (transaction: Transaction, appId: string, next?: GivenToNext): Promise<void> => {
    const current = await currentRelease(store.releases, transaction, appId)
    const more = next?.given ?? {}
    const kinds = new Map((await appVariables.of(transaction, appId)).map(({ name, kind }) => [name, kind]))
    const before = current === undefined ? {} : givenOf(ownOf(secrets, current))
    const adopted = Object.entries({ ...before, ...more }).map(([name, value]): AppVariable => {
      const isNew = Object.hasOwn(more, name)
      const source = isNew || current === undefined ? (next?.source ?? null) : sourceOf(current)
      return { name, value, source, kind: isNew ? (kinds.get(name) ?? 'secret') : 'secret' }
    })
    await appVariables.set(transaction, appId, adopted)
    await assertFits(appVariables, transaction, appId, 'env_vars')
    if (current === undefined) return
    // Locks linked databases before the release, in the same order as a rotation of their passwords.
    await sourcesOf(transaction, { appId, projectId: current.project_id })
    await store.requests.giveUpVariables(transaction, current)
  }
}

async function assertFits(
  appVariables: Pick<AppVariables, 'of'>,
  transaction: Transaction,
  appId: string,
  field: string,
): Promise<void> {
  if ((await appVariables.of(transaction, appId)).length <= mostVariables) return
  throw invalidRequest({ field, message: `an app has at most ${mostVariables} variables` })
}

/**
 * Returns the changes of a request. Throws `invalid_request` for names to remove that do not exist, or that the request
 * also sets.
 */
function changeOf(
  { set = {}, dotenv = {}, kind, unset = [] }: BodyOutput<'variables.update'>,
  { existing, source }: { readonly existing: readonly AppVariable[]; readonly source: string | null },
): { readonly set: readonly AppVariable[]; readonly removed: readonly string[] } {
  const kinds = new Map(existing.map((variable) => [variable.name, variable.kind]))
  const values: Variables = { ...dotenv, ...set }
  const problems = unset.flatMap((name, at): FieldProblem[] => {
    if (Object.hasOwn(values, name)) return [{ field: `unset.${at}`, message: `${name} is set by the same request` }]
    return kinds.has(name) ? [] : [{ field: `unset.${at}`, message: `the app has no variable ${name}` }]
  })
  const [first, ...others] = problems
  if (first !== undefined) throw invalidRequest(first, ...others)
  const variables = Object.entries(values).map(([name, value]) => {
    return { name, value, source, kind: kind ?? kinds.get(name) ?? 'secret' } as const
  })
  return { set: variables, removed: unset }
}

/** Returns the variables with these names, or all. Throws `invalid_request` for unknown names. */
function chosen(variables: readonly AppVariable[], names: readonly string[] | undefined): readonly AppVariable[] {
  if (names === undefined) return variables
  const byName = new Map(variables.map((variable) => [variable.name, variable]))
  return names.map((name, at) => {
    const variable = byName.get(name)
    if (variable !== undefined) return variable
    throw invalidRequest({ field: `names.${at}`, message: `the app to copy from has no variable ${name}` })
  })
}

/** Returns the id of the app to copy from. An app that the caller may not use gets the same answer as a missing app. */
async function appToCopy(
  { apps, findProject }: Pick<VariableRequestDependencies, 'apps' | 'findProject'>,
  transaction: Transaction,
  { principal, project, appId }: AppRequest,
  { from, from_project = project.id }: Omit<BodyOutput<'variables.copy'>, 'names'>,
): Promise<string> {
  const found = mayUseProject(principal, from_project)
    ? await findProject(principal.accountId, from_project, transaction)
    : undefined
  const app = found && isId('app', from) ? await apps.find(transaction, found.id, from) : undefined
  if (app === undefined) throw invalidRequest({ field: 'from', message: 'is not an app of a project that you may use' })
  if (app.id === appId) throw invalidRequest({ field: 'from', message: 'is the app itself' })
  return app.id
}

/**
 * Returns variables to copy, with the source that their copies belong to: for a signed-in user the source of the
 * receiving app, for a key their present source. Throws `invalid_request` when a key would copy secret variables to an
 * app with another source: otherwise a stolen key with the permission to deploy could read them with any repository.
 */
async function takenAlong(
  { store, appVariables }: Pick<VariableRequestDependencies, 'store' | 'appVariables'>,
  transaction: Transaction,
  { principal, appId, from }: AppRequest & { readonly from: string },
  names: readonly string[] | undefined,
): Promise<readonly AppVariable[]> {
  const copied = chosen(await appVariables.of(transaction, from), names)
  const target = await sourceOfSecrets(store.releases, transaction, appId)
  const usual = await sourceOfSecrets(store.releases, transaction, from)
  return copied.map((variable) => {
    const source = variable.source ?? usual
    if (principal.actor.type === 'user' || variable.kind === 'plain' || source === target) {
      return { ...variable, source: target }
    }
    const message = `has secret variables, which stay with ${source}. Copy them to an app of another source in the dashboard`
    throw invalidRequest({ field: 'from', message })
  })
}

const ownOf = (secrets: Pick<DeploymentSecrets, 'variablesOf'>, row: DeploymentRow) => ({
  variables: secrets.variablesOf(row),
  origins: row.variable_origins,
})

async function stateOf(
  { store, secrets, appVariables, sourcesOf }: VariableRequestDependencies,
  on: Database | Transaction,
  { principal, project, appId }: AppRequest,
): Promise<State> {
  const variables = await appVariables.of(on, appId)
  const current = await currentRelease(store.releases, on, appId)
  // Deleted between the reads.
  if (current === undefined) throw notFound()
  const frozen = ownOf(secrets, current)
  const given = givenOf(frozen)
  const next = releaseVariables(await sourcesOf(on, { appId, projectId: project.id }), given)
  const mayWrite = isAuthorized(principal, { access: 'deployments:write' }, project.id)
  return {
    variables: variables.map(({ name, kind, value, updatedAt }) => ({
      name,
      kind,
      value: kind === 'plain' && mayWrite ? value : null,
      updated_at: updatedAt.toISOString(),
    })),
    deployment_id: current.id,
    env_vars: Object.keys(given).sort(),
    pending: changesBetween(frozen.variables, next.variables),
  }
}

/**
 * Deploys the app's serving commit again, with the app's current variables. The transaction holds the app's lock.
 * Throws `invalid_request` while a deployment of the app is building, and like a creation.
 */
type ApplyVariables = (
  transaction: Transaction,
  project: TenantProject,
  app: App,
  request: { readonly principal: Principal; readonly body: BodyOutput<'apps.apply'> },
) => Promise<ResponseBody<'apps.apply'>>

interface ApplyDependencies {
  readonly store: Pick<DeploymentStore, 'releases' | 'ofProjects' | 'rows'>
  readonly plans: Plans
  readonly secrets: Pick<DeploymentSecrets, 'variablesOf'>
  readonly addRelease: AddRelease
  readonly runtimes: RuntimeNames
  readonly assertRoom: () => Promise<void>
  /**
   * Throws `invalid_request` for a repository that the account may not deploy, and for a token that cannot be sent
   * there.
   */
  readonly checkRepository: (accountId: string, source: RepositoryToCheck) => Promise<void>
  /** Throws `invalid_request` when an uploaded source is gone; otherwise records its use. */
  readonly useUploaded: (transaction: Transaction, projectId: string, sourceId: string) => Promise<unknown>
  readonly urlOf: UrlOf
}

export function createApplyVariables(dependencies: ApplyDependencies): ApplyVariables {
  const { store, secrets, addRelease, assertRoom, urlOf } = dependencies
  return async (transaction, project, app, { principal, body }) => {
    await assertRoom()
    const current = await currentRelease(store.releases, transaction, app.id)
    // An app is deleted with its last deployment.
    if (current === undefined) throw notFound()
    if (current.status === 'building') throw stillBuilding(current.id)
    const source = await sourceAgain(dependencies, transaction, project, current, body)
    await assertMayAddApp(dependencies, transaction, project, app.id)
    const row = await addRelease(transaction, project, {
      appId: app.id,
      ...source,
      trigger: triggerOf(principal),
      applies: true,
      given: givenOf({ variables: secrets.variablesOf(current), origins: current.variable_origins }),
      gitToken: body.git_token,
    })
    return itemOf(row, app, urlOf)
  }
}

/** Returns the source of the commit to deploy again; a promoted release is copied, as before. */
async function sourceAgain(
  dependencies: Pick<ApplyDependencies, 'store' | 'runtimes' | 'useUploaded' | 'checkRepository'>,
  transaction: Transaction,
  project: TenantProject,
  current: DeploymentRow,
  body: BodyOutput<'apps.apply'>,
): Promise<DeploymentSource> {
  const { id, git_url: gitUrl, source_id: sourceId, image, branch, commit, root } = current
  const { runtimes } = dependencies
  if (current.from_deployment_id !== null && current.retained) {
    const mayUse = (projectId: string) => projectId === project.id
    return promotedSource({ ...dependencies, mayUse }, transaction, project, id)
  }
  // The same image, even if its tag has moved.
  if (image !== null) return imageSource({ reference: image, digest: current.image_digest }, runtimes)
  if (sourceId !== null) await dependencies.useUploaded(transaction, project.id, sourceId)
  else await dependencies.checkRepository(project.accountId, { git_url: gitUrl, ...body })
  return { ...noSource, gitUrl, sourceId, branch, commit, root, runtime: runtimes.preferred }
}

const stillBuilding = (id: string): ApiError =>
  new ApiError(
    'invalid_request',
    `The deployment ${id} of this app is building, with the variables of its creation. Wait for its end, or cancel it.`,
    { status: 'building' },
  )
