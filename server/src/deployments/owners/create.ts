import type { DeploymentTrigger } from '../../contract/deployments.ts'
import type { BodyOutput, ResponseBody } from '../../contract/operations.ts'
import type { Principal, TenantProject } from '../../http/principal.ts'
import type { Totals } from '../../platform/account-limits.ts'
import type { Transaction } from '../../platform/database.ts'
import type { Plans } from '../../platform/plans.ts'
import type { FileRule } from '../../sources/sources.ts'
import type { App } from '../app-directory.ts'
import { notifyChange } from '../changes.ts'
import type { UrlOf } from '../outcome.ts'
import { givenToNext, type Variables } from '../release-variables.ts'
import type { DeploymentStore } from '../rows.ts'
import type { DeploymentSecrets } from '../secrets.ts'
import { sourceOf } from '../source-of.ts'
import type { AddRelease } from './add-release.ts'
import { checkSource } from './check-source.ts'
import { type DeploymentSource, imageSource, noSource, type RuntimeNames, rowOf } from './deployment-source.ts'
import { assertMayAddApp } from './may-add-app.ts'
import { itemOf } from './presentation.ts'

/**
 * Accepts a deployment: its row, its job and its app, if that is new, in one transaction. Throws `invalid_request` on a
 * hostile address, branch or token, on variables to keep that do not exist, and when the project's plan or the
 * account allows no further app or deployment; `server_error` when the disk is nearly full.
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

export interface CreateDependencies {
  readonly store: Pick<DeploymentStore, 'rows' | 'ofProjects'>
  readonly findOrCreateApp: (
    transaction: Transaction,
    project: { readonly id: string },
    name: string,
  ) => Promise<{ readonly app: App; readonly isNew: boolean }>
  readonly secrets: Pick<DeploymentSecrets, 'variablesOf'>
  readonly variables: {
    /** Makes the variables of an app's current deployment, and those of the next one, variables of the app. */
    readonly adopt: (
      transaction: Transaction,
      appId: string,
      next: { readonly given: Variables; readonly source: string },
    ) => Promise<void>
    /** Links a database to an app. */
    readonly link: (
      transaction: Transaction,
      caller: { readonly principal: Principal; readonly project: TenantProject },
      body: BodyOutput<'links.create'>,
    ) => Promise<unknown>
  }
  readonly addRelease: AddRelease
  readonly plans: Plans
  readonly totals: Pick<Totals, 'assertRoom'>
  /** Throws `server_error` when the disk is nearly full. */
  readonly assertRoom: () => Promise<void>
  readonly urlOf: UrlOf
  readonly sources: {
    /** The repositories of this machine that an account may deploy. */
    readonly filesFor: (accountId: string) => FileRule
    /** True in local mode alone: tokens may be sent over plain http. */
    readonly allowHttpTokens: boolean
    readonly runtimes: RuntimeNames
    /** Sets the volumes that further images of an app have. */
    readonly setImageVolumes: (
      transaction: Transaction,
      appId: string,
      volumes: Readonly<Record<string, string>>,
    ) => Promise<void>
    /** Returns the source of a kept release of the account. Throws `invalid_request`. */
    readonly promoted: (
      transaction: Transaction,
      project: TenantProject,
      id: string,
      mayUse: (projectId: string) => boolean,
    ) => Promise<DeploymentSource>
    /** Returns the commit of an uploaded source of a project, which is kept. Throws `invalid_request`. */
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
    // The address answers after the commit, with 503 until the release is there.
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

/** Checks the source of a new deployment, and returns it as its row has it. */
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

/**
 * Returns the variables that the deployment is given by itself. Reads and changes those of before under the lock of the app,
 * which the transaction holds.
 */
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
