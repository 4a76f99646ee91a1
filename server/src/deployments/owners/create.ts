import type { BodyOutput, ResponseBody } from '../../contract/operations.ts'
import type { TenantProject } from '../../http/principal.ts'
import type { Transaction } from '../../platform/database.ts'
import { newId } from '../../platform/ids.ts'
import { type Plans, planNamed } from '../../platform/plans.ts'
import type { SecretBox } from '../../platform/secrets/secret-box.ts'
import type { DiskGuard } from '../job/disk.ts'
import type { UrlOf } from '../state/announce.ts'
import type { App } from '../state/apps.ts'
import { notifyChange } from '../state/changes.ts'
import { enqueueDeployment } from '../state/queue.ts'
import { type DeploymentSecrets, tokenContext } from '../state/secrets.ts'
import type { DeploymentStore } from '../state/store.ts'
import { nextVariables } from '../state/variables.ts'
import { checkSource } from './check-source.ts'
import { itemOf } from './presentation.ts'

/**
 * Accepts a deployment: its row, its job and its app, if that is new, in one transaction. Throws `invalid_request` on a
 * hostile address, branch or token, on variables to keep that do not exist, and when the project's plan allows no further
 * app; `server_error` when the disk is nearly full.
 */
export type CreateDeployment = (
  transaction: Transaction,
  project: TenantProject,
  input: BodyOutput<'deployments.create'>,
) => Promise<ResponseBody<'deployments.create'>>

export interface CreateDependencies {
  readonly store: Pick<DeploymentStore, 'rows' | 'requests' | 'ofProjects'>
  readonly findOrCreateApp: (
    transaction: Transaction,
    project: { readonly id: string; readonly plan: string; readonly mostApps: number },
    name: string,
  ) => Promise<{ readonly app: App; readonly isNew: boolean }>
  readonly secrets: { readonly box: SecretBox; readonly ofDeployments: Pick<DeploymentSecrets, 'variablesOf'> }
  readonly plans: Plans
  readonly disk: Pick<DiskGuard, 'assertRoom'>
  readonly urlOf: UrlOf
  readonly allowFile: boolean
  /** The name of the runtime that builds and runs new releases. */
  readonly runtime: string
}

export function createCreateDeployment(dependencies: CreateDependencies): CreateDeployment {
  const { store, findOrCreateApp, secrets, plans, disk, urlOf, runtime } = dependencies
  return async (transaction, project, input) => {
    await checkSource(input, dependencies)
    await disk.assertRoom()
    const mostApps = planNamed(plans, project.plan).apps
    const { app, isNew } = await findOrCreateApp(transaction, { ...project, mostApps }, input.name)
    // The address answers after the commit, with 503 until the release is there.
    if (isNew) await notifyChange(transaction, { appId: app.id, deploymentId: null })
    const variables = await variablesFor(dependencies, transaction, app, input)
    const id = newId('deployment')
    const row = await store.requests.add(transaction, {
      id,
      projectId: project.id,
      accountId: project.accountId,
      appId: app.id,
      gitUrl: input.git_url,
      branch: input.branch ?? null,
      commit: input.commit ?? null,
      variables: secrets.box.encrypt(JSON.stringify(variables), id),
      gitToken: input.git_token === undefined ? null : secrets.box.encrypt(input.git_token, tokenContext(id)),
      runtime,
    })
    await enqueueDeployment(transaction, store.ofProjects, row)
    return itemOf(row, app, urlOf)
  }
}

/** Reads the variables to keep under the lock of the app, which the transaction holds. */
async function variablesFor(
  { store, secrets }: CreateDependencies,
  transaction: Transaction,
  app: App,
  input: BodyOutput<'deployments.create'>,
) {
  const keep = input.keep_env_vars ?? []
  const wanted = { app: app.name, gitUrl: input.git_url, given: input.env_vars ?? {}, keep }
  const latest = keep.length === 0 ? undefined : await store.rows.latest(transaction, app.id)
  return nextVariables(
    wanted,
    latest && { gitUrl: latest.git_url, variables: secrets.ofDeployments.variablesOf(latest) },
  )
}
