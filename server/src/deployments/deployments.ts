import type { FieldProblem } from '../contract/errors.ts'
import { invalidRequest, notFound } from '../contract/errors.ts'
import type { BodyOutput, ResponseBody } from '../contract/operations.ts'
import type { Page, PageRequest } from '../http/page.ts'
import type { TenantProject } from '../http/principal.ts'
import type { AppsConfig } from '../platform/config.ts'
import type { Database, Transaction } from '../platform/database.ts'
import { newId } from '../platform/ids.ts'
import { type Plans, planNamed } from '../platform/plans.ts'
import type { SecretBox } from '../platform/secrets/secret-box.ts'
import type { Apps } from './apps.ts'
import type { Disk } from './disk.ts'
import { branchProblem, isLocalRepository, parseGitUrl } from './git-source.ts'
import { enqueueWork } from './jobs.ts'
import type { Listening } from './listening.ts'
import { detailOf, itemOf } from './presentation.ts'
import { type Releases, tokenContext } from './releases.ts'
import { takesToken } from './steps/remote.ts'
import type { DeploymentStore } from './store/store.ts'
import { nextVariables } from './variables.ts'

export interface DeploymentsDependencies {
  readonly database: Database
  readonly store: DeploymentStore
  readonly apps: Apps
  readonly listening: Listening
  readonly releases: Pick<Releases, 'variablesOf'>
  readonly secrets: SecretBox
  readonly plans: Plans
  readonly appsConfig: AppsConfig
  readonly disk: Pick<Disk, 'assertRoom'>
  /** Whether `file:` addresses may be deployed, and tokens sent over plain http: in local mode alone. */
  readonly allowFile: boolean
}

export interface Deployments {
  /**
   * Accepts a deployment: its row, its job and its app, if that is new, in one transaction. Throws `invalid_request` on
   * a hostile address, branch or token, on variables to keep that there are not, and when the project's plan allows no
   * further app.
   */
  create(
    transaction: Transaction,
    afterCommit: (work: () => void) => void,
    project: TenantProject,
    input: BodyOutput<'deployments.create'>,
  ): Promise<ResponseBody<'deployments.create'>>
  list(project: TenantProject, page: PageRequest): Promise<Page<ResponseBody<'deployments.list'>>>
  /** Throws `not_found`. */
  get(project: TenantProject, id: string): Promise<ResponseBody<'deployments.get'>>
}

export function createDeployments(dependencies: DeploymentsDependencies): Deployments {
  const { database, store, apps, releases, secrets, plans, appsConfig } = dependencies

  /** What the app's latest release has; asked under the lock of the app. */
  const latestOf = async (transaction: Transaction, appId: string) => {
    const row = await store.latest(transaction, appId)
    return row && { gitUrl: row.git_url, variables: releases.variablesOf(row) }
  }

  return {
    async create(transaction, afterCommit, project, input) {
      await checkSource(input, dependencies)
      await dependencies.disk.assertRoom()
      const mostApps = planNamed(plans, project.plan).apps
      const { app, isNew } = await apps.findOrCreate(transaction, { ...project, mostApps }, input.name)
      // The address answers from now on, with 503 until the release is there.
      if (isNew) afterCommit(() => void dependencies.listening.open(app))
      const keep = input.keep_env_vars ?? []
      const wanted = { app: app.name, gitUrl: input.git_url, given: input.env_vars ?? {}, keep }
      const variables = nextVariables(wanted, keep.length === 0 ? undefined : await latestOf(transaction, app.id))
      const id = newId('deployment')
      const row = await store.add(transaction, {
        id,
        projectId: project.id,
        accountId: project.accountId,
        appId: app.id,
        gitUrl: input.git_url,
        branch: input.branch ?? null,
        commit: input.commit ?? null,
        variables: secrets.encrypt(JSON.stringify(variables), id),
        gitToken: input.git_token === undefined ? null : secrets.encrypt(input.git_token, tokenContext(id)),
      })
      await enqueueWork(transaction, store, row)
      return itemOf({ ...row, app_name: app.name, port: null, hostname: null, ...app.address }, appsConfig)
    },

    async list(project, page) {
      const { rows, next } = await store.list(project.id, page)
      return { body: { deployments: rows.map((row) => itemOf(row, appsConfig)) }, next }
    },

    async get(project, id) {
      const row = await store.get(database, project.id, id)
      if (row === undefined) throw notFound()
      return detailOf(row, releases.variablesOf(row), appsConfig)
    },
  }
}

async function checkSource(
  input: BodyOutput<'deployments.create'>,
  options: { readonly allowFile: boolean },
): Promise<void> {
  const problems: FieldProblem[] = []
  const source = parseGitUrl(input.git_url, options)
  if ('field' in source) problems.push(source)
  const branch = input.branch === undefined ? undefined : branchProblem(input.branch)
  if (branch !== undefined) problems.push({ field: 'branch', message: branch })
  if (!('field' in source)) {
    if (source.protocol === 'file' && !(await isLocalRepository(source))) {
      problems.push({ field: 'git_url', message: 'there is no git repository at this path' })
    }
    if (input.git_token !== undefined && !takesToken(source, { allowHttp: options.allowFile })) {
      problems.push({ field: 'git_token', message: 'can be sent to an https address alone' })
    }
  }
  const [first, ...others] = problems
  if (first !== undefined) throw invalidRequest(first, ...others)
}
