import type { DeploymentTrigger } from '../../contract/deployments.ts'
import { ApiError, type FieldProblem, invalidRequest } from '../../contract/errors.ts'
import type { BodyOutput, ResponseBody } from '../../contract/operations.ts'
import type { Principal, TenantProject } from '../../http/principal.ts'
import type { Totals } from '../../platform/account-limits.ts'
import { lockByName, type Transaction } from '../../platform/database.ts'
import { newId } from '../../platform/ids.ts'
import { type Plans, planNamed } from '../../platform/plans.ts'
import type { SecretBox } from '../../platform/secrets.ts'
import type { RuntimeNames } from '../../runtimes/names.ts'
import { branchProblem, parseGitUrl } from '../../sources/git-url.ts'
import { allowsFiles, fileProblem } from '../../sources/local-repository.ts'
import { takesToken } from '../../sources/remote.ts'
import type { FileRule } from '../../sources/sources.ts'
import type { App } from './app-directory.ts'
import { giveSecretsTo, sourceOfSecrets } from './app-variables.ts'
import { notifyChange } from './changes.ts'
import type { SourcesOf } from './links.ts'
import type { UrlOf } from './outcome.ts'
import { itemOf } from './presentation.ts'
import { enqueueDeployment } from './queue.ts'
import {
  type AppVariable,
  assertFewVariables,
  givenToNext,
  releaseVariables,
  type Variables,
} from './release-variables.ts'
import type { DeploymentStore, NewDeployment } from './rows.ts'
import { type DeploymentSecrets, tokenContext } from './secrets.ts'
import { type SourceColumns, sourceOf } from './source-of.ts'
import type { DeploymentRow } from './tables.ts'

/**
 * Accepts a deployment: creates its row, its job and, if it is new, its app in one transaction. Throws
 * `invalid_request` for a hostile address, branch or token, for unknown variables to keep, and when the project's plan
 * or the account allows no further app or deployment; `server_error` when the disk is nearly full.
 */
export type CreateDeployment = (
  transaction: Transaction,
  project: TenantProject,
  input: BodyOutput<'deployments.create'>,
  caller: {
    readonly principal: Principal
    readonly trigger: DeploymentTrigger
    readonly mayUse: (projectId: string) => boolean
  },
) => Promise<ResponseBody<'deployments.create'>>

interface CreateDependencies {
  readonly store: Pick<DeploymentStore, 'rows' | 'ofProjects'>
  readonly findOrCreateApp: (
    transaction: Transaction,
    project: { readonly id: string },
    name: string,
  ) => Promise<{ readonly app: App; readonly isNew: boolean }>
  readonly secrets: Pick<DeploymentSecrets, 'variablesOf'>
  readonly variables: {
    /** Turns the variables of the app's current deployment, and of its next deployment, into variables of the app. */
    readonly adopt: (
      transaction: Transaction,
      appId: string,
      next: { readonly given: Variables; readonly source: string },
    ) => Promise<void>
    readonly link: (
      transaction: Transaction,
      caller: { readonly principal: Principal; readonly project: TenantProject },
      body: BodyOutput<'links.create'>,
    ) => Promise<unknown>
  }
  readonly addRelease: AddRelease
  readonly plans: Plans
  readonly totals: Pick<Totals, 'assertRoom'>
  readonly assertRoom: () => Promise<void>
  readonly urlOf: UrlOf
  readonly sources: {
    readonly filesFor: (accountId: string) => FileRule
    readonly allowHttpTokens: boolean
    readonly runtimes: RuntimeNames
    readonly setImageVolumes: (
      transaction: Transaction,
      appId: string,
      volumes: Readonly<Record<string, string>>,
    ) => Promise<void>
    readonly promoted: (
      transaction: Transaction,
      project: TenantProject,
      id: string,
      mayUse: (projectId: string) => boolean,
    ) => Promise<DeploymentSource>
    /** Returns the commit of the project's uploaded source, and prevents its removal. Throws `invalid_request`. */
    readonly uploaded: (
      transaction: Transaction,
      projectId: string,
      sourceId: string,
    ) => Promise<{ readonly commit: string; readonly branch: string | null }>
  }
}

export function createCreateDeployment(dependencies: CreateDependencies): CreateDeployment {
  const { store, findOrCreateApp, assertRoom, urlOf } = dependencies
  return async (transaction, project, input, { principal, trigger, mayUse }) => {
    const source =
      input.from_deployment_id === undefined
        ? await checkedSource(dependencies, transaction, project, input)
        : await dependencies.sources.promoted(transaction, project, input.from_deployment_id, mayUse)
    await assertRoom()
    const { app, isNew } = await findOrCreateApp(transaction, project, input.name)
    await assertMayAddApp(dependencies, transaction, project, app.id)
    // The address answers after the commit: with 503 until the release serves.
    if (isNew) {
      const count = () => store.ofProjects.countApps(transaction, project.accountId)
      await dependencies.totals.assertRoom(transaction, project.accountId, 'apps', count)
      await notifyChange(transaction, { appId: app.id, deploymentId: null })
    }
    if (input.volumes !== undefined) await dependencies.sources.setImageVolumes(transaction, app.id, input.volumes)
    const given = await givenTo(dependencies, transaction, app, source, input)
    for (const [variable, database] of Object.entries(input.databases ?? {})) {
      await dependencies.variables.link(transaction, { principal, project }, { app: app.id, database, variable })
    }
    const row = await dependencies.addRelease(transaction, project, {
      appId: app.id,
      ...source,
      trigger,
      given,
      gitToken: input.git_token,
    })
    return itemOf(row, app, urlOf)
  }
}

async function checkedSource(
  { sources }: CreateDependencies,
  transaction: Transaction,
  project: TenantProject,
  input: BodyOutput<'deployments.create'>,
): Promise<DeploymentSource> {
  if (input.image !== undefined) return imageSource({ reference: input.image, digest: null }, sources.runtimes)
  const runtime = sources.runtimes.preferred
  if (input.source_id !== undefined) {
    const uploaded = await sources.uploaded(transaction, project.id, input.source_id)
    return { ...noSource, root: input.root ?? null, sourceId: input.source_id, ...uploaded, runtime }
  }
  await checkSource(input, { ...sources, files: sources.filesFor(project.accountId) })
  const { git_url: gitUrl = '', branch = null, commit = null, root = null } = input
  return { ...noSource, gitUrl, branch, commit, root, runtime }
}

/** Returns the variables of the deployment itself. The transaction holds the app's lock. */
async function givenTo(
  { store, secrets, variables }: CreateDependencies,
  transaction: Transaction,
  app: App,
  source: DeploymentSource,
  input: BodyOutput<'deployments.create'>,
): Promise<Variables> {
  const given = input.env_vars ?? {}
  if (input.env_vars_for === 'app') {
    await variables.adopt(transaction, app.id, { given, source: sourceOf(rowOf(source)) })
    return {}
  }
  const keep = input.keep_env_vars ?? []
  const wanted = { app: app.name, source: sourceOf(rowOf(source)), given, keep }
  const latest = keep.length === 0 ? undefined : await store.rows.latest(transaction, app.id)
  return givenToNext(
    wanted,
    latest && {
      source: sourceOf(latest),
      variables: secrets.variablesOf(latest),
      origins: latest.variable_origins,
    },
  )
}

interface ReleaseToMake extends Pick<NewDeployment, 'appId' | 'trigger' | 'applies'>, DeploymentSource {
  readonly trigger: DeploymentTrigger
  readonly given: Variables
  readonly gitToken: string | undefined
}

/**
 * Adds a release with its job, under the app's lock, and freezes its variables. Throws `invalid_request` when the
 * account allows no further deployment, for too many variables, and for a source that may not have the app's secret
 * variables.
 */
export type AddRelease = (
  transaction: Transaction,
  project: TenantProject,
  release: ReleaseToMake,
) => Promise<DeploymentRow>

interface AddReleaseDependencies {
  readonly store: Pick<DeploymentStore, 'requests' | 'ofProjects' | 'releases'>
  readonly secretBox: SecretBox
  readonly sourcesOf: SourcesOf
  readonly totals: Pick<Totals, 'assertRoom' | 'takeOne'>
}

export function createAddRelease(dependencies: AddReleaseDependencies): AddRelease {
  const { store, secretBox, sourcesOf } = dependencies
  return async (transaction, project, { given, gitToken, ...release }) => {
    await assertMayBuild(dependencies, transaction, project.accountId)
    const sources = await sourcesOf(transaction, { appId: release.appId, projectId: project.id })
    await takeSecrets(store, transaction, release, sources)
    const { variables, origins } = releaseVariables(sources, given)
    assertFewVariables(variables)
    const id = newId('deployment')
    const row = await store.requests.add(transaction, {
      id,
      projectId: project.id,
      accountId: project.accountId,
      ...release,
      variables: secretBox.encrypt(JSON.stringify(variables), id),
      origins,
      gitToken: gitToken === undefined ? null : secretBox.encrypt(gitToken, tokenContext(id)),
    })
    await enqueueDeployment(transaction, store.ofProjects, row)
    return row
  }
}

/**
 * Throws `invalid_request` when the project has as many apps as its plan allows, not counting this app. An app counts
 * while a deployment of it is building, and once one has run. Call it before the deployment is added.
 */
export async function assertMayAddApp(
  { store, plans }: { readonly store: Pick<DeploymentStore, 'ofProjects'>; readonly plans: Plans },
  transaction: Transaction,
  project: TenantProject,
  appId: string,
): Promise<void> {
  const counted = () => store.ofProjects.countedApps(transaction, project.id)
  if ((await counted()).has(appId)) return
  // Serializes the count, so that two apps cannot take the last slot. All callers take this lock after the app's lock.
  await lockByName(transaction, `room for apps of ${project.id}`)
  const mostApps = planNamed(plans, project.plan).apps
  if ((await counted()).size < mostApps) return
  throw new ApiError(
    'invalid_request',
    `name: the plan ${project.plan} of this project allows ${mostApps} apps, and it has them. Delete all deployments of ` +
      'an app that is not needed any more, or give the project a larger plan.',
    { field: 'name', most_apps: mostApps },
  )
}

/** Throws `invalid_request` when the account may begin no further build now. Call it before the deployment is added. */
async function assertMayBuild(
  given: {
    readonly store: Pick<DeploymentStore, 'ofProjects'>
    readonly totals: Pick<Totals, 'assertRoom' | 'takeOne'>
  },
  transaction: Transaction,
  accountId: string,
): Promise<void> {
  const { store, totals } = given
  await totals.assertRoom(transaction, accountId, 'building', () =>
    store.ofProjects.countBuilding(transaction, accountId),
  )
  await totals.takeOne(transaction, accountId, 'deployments_per_hour')
}

/**
 * Throws `invalid_request` when a key would give an app's secret variables to code of a source that they do not belong
 * to: otherwise a stolen key with the permission to deploy could read them. The deployment of a signed-in user takes
 * the variables along to its source. The caller holds the app's lock.
 *
 * @param variables the app's variables, including its links
 */
async function takeSecrets(
  store: Pick<DeploymentStore, 'releases'>,
  transaction: Transaction,
  release: Pick<NewDeployment, 'appId' | 'gitUrl' | 'sourceId' | 'image'> & {
    readonly trigger: Pick<DeploymentTrigger, 'kind'>
  },
  variables: readonly AppVariable[],
): Promise<void> {
  const { appId, trigger } = release
  const source = sourceOf(rowOf(release))
  const byUser = trigger.kind === 'user'
  if (!byUser) {
    const usual = await sourceOfSecrets(store.releases, transaction, appId)
    for (const { kind, source: own } of variables) {
      const owner = own ?? usual ?? source
      if (kind === 'secret' && owner !== source) throw staysWith(owner, fieldOf(release))
    }
  }
  if (variables.length > 0) await giveSecretsTo(transaction, appId, { source, all: byUser })
}

type SourceField = 'git_url' | 'source_id' | 'image'

function fieldOf({ sourceId, image }: Pick<NewDeployment, 'sourceId' | 'image'>): SourceField {
  if (sourceId !== null) return 'source_id'
  return image === null ? 'git_url' : 'image'
}

function staysWith(owner: string, field: SourceField) {
  const message =
    `the app has secret variables, which stay with ${owner}. Deploy the other source once in the dashboard, which takes them ` +
    'along, or under another name, or after the secret variables are removed'
  return invalidRequest({ field, message })
}

export type RepositoryToCheck = Pick<BodyOutput<'deployments.create'>, 'git_url' | 'branch' | 'git_token'>

/** Throws `invalid_request` for a hostile address, branch or token. */
export async function checkSource(
  input: RepositoryToCheck,
  options: {
    readonly files: FileRule
    /** True only in local mode: tokens may be sent over plain http. */
    readonly allowHttpTokens: boolean
  },
): Promise<void> {
  const problems: FieldProblem[] = []
  // An uploaded source was checked when it arrived.
  if (input.git_url === undefined) return
  const source = parseGitUrl(input.git_url, { allowFile: allowsFiles(options.files) })
  if ('field' in source) problems.push(source)
  const branch = input.branch === undefined ? undefined : branchProblem(input.branch)
  if (branch !== undefined) problems.push({ field: 'branch', message: branch })
  if (!('field' in source)) {
    const problem = source.protocol === 'file' ? await fileProblem(source, options.files) : null
    if (problem !== null) problems.push({ field: 'git_url', message: problem })
    if (input.git_token !== undefined && !takesToken(source, { allowHttp: options.allowHttpTokens })) {
      problems.push({ field: 'git_token', message: 'can be sent only to an https address' })
    }
  }
  const [first, ...rest] = problems
  if (first !== undefined) throw invalidRequest(first, ...rest)
}

/**
 * Returns the source of a deployment that copies the release of another deployment. Throws `invalid_request` when that
 * deployment belongs to another account or to a project that the caller may not use, or when its release is not
 * retained. The errors do not reveal deployments of other accounts.
 */
export async function promotedSource(
  given: {
    readonly store: Pick<DeploymentStore, 'rows'>
    readonly runtimes: RuntimeNames
    readonly mayUse: (projectId: string) => boolean
  },
  transaction: Transaction,
  project: TenantProject,
  id: string,
): Promise<DeploymentSource> {
  const refuse = (message: string) => invalidRequest({ field: 'from_deployment_id', message })
  const from = await given.store.rows.find(id, transaction)
  if (from === undefined || from.account_id !== project.accountId || !given.mayUse(from.project_id)) {
    throw refuse('names no deployment of a project that you may use')
  }
  if (!from.retained || from.build_plan === null) throw refuse('has no release that is kept: deploy its commit instead')
  const { git_url: gitUrl, source_id: sourceId, image, image_digest: imageDigest } = from
  const { branch, commit, commit_details: commitDetails, root, runtime } = from
  if (runtime !== given.runtimes.preferred && runtime !== given.runtimes.images) {
    throw refuse('was built for a runtime that this server does not have: deploy its commit instead')
  }
  return { gitUrl, sourceId, image, imageDigest, fromId: from.id, branch, commit, commitDetails, root, runtime }
}

export type DeploymentSource = Pick<
  NewDeployment,
  | 'gitUrl'
  | 'sourceId'
  | 'image'
  | 'imageDigest'
  | 'fromId'
  | 'branch'
  | 'commit'
  | 'commitDetails'
  | 'root'
  | 'runtime'
>

export const noSource: Omit<DeploymentSource, 'runtime'> = {
  gitUrl: '',
  sourceId: null,
  image: null,
  imageDigest: null,
  fromId: null,
  branch: null,
  commit: null,
  commitDetails: null,
  root: null,
}

const noImages =
  'is not possible: this server runs no container images. Its operator turns Docker on with FAIRLEAD_RUNTIME=process,docker'

/**
 * Returns the source of a deployment of an image. Throws `invalid_request` when this server cannot run images.
 *
 * @param image.digest the required digest; null for the reference's current digest
 */
export function imageSource(
  { reference, digest }: { readonly reference: string; readonly digest: string | null },
  { images }: Pick<RuntimeNames, 'images'>,
): DeploymentSource {
  if (images === null) throw invalidRequest({ field: 'image', message: noImages })
  return { ...noSource, image: reference, imageDigest: digest, runtime: images }
}

const rowOf = ({
  gitUrl,
  sourceId,
  image,
}: Pick<DeploymentSource, 'gitUrl' | 'sourceId' | 'image'>): SourceColumns => ({
  git_url: gitUrl,
  source_id: sourceId,
  image,
})

/** The row stores the creator, because keys and users may be deleted later. */
export function triggerOf({ actor, workflow }: Pick<Principal, 'actor' | 'workflow'>): DeploymentTrigger {
  return {
    kind: workflow === null ? actor.type : 'workflow',
    name: actor.name,
    repository: workflow?.repository ?? null,
    run_url: workflow?.run_url ?? null,
    actor: workflow?.actor ?? null,
    event: workflow?.event ?? null,
  }
}
