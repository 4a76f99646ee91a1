import { invalidRequest, notFound } from '../contract/errors.ts'
import type { BodyOutput, ResponseBody } from '../contract/operations.ts'
import { cutPage, type Page, type PageRequest } from '../http/page.ts'
import type { TenantProject } from '../http/principal.ts'
import type { AppsConfig } from '../platform/config.ts'
import type { Transaction } from '../platform/database.ts'
import { newId } from '../platform/ids.ts'
import { enqueue } from '../platform/jobs.ts'
import type { SecretBox } from '../platform/secrets.ts'
import { addressOf, publicUrl } from './addresses.ts'
import type { Apps } from './apps.ts'
import { branchProblem, isLocalRepository, parseGitUrl } from './git-source.ts'
import type { DeploymentRow, DeploymentStore } from './store.ts'

/** The job that works on one deployment. */
export const deployTask = 'deployments.deploy'

export interface DeploymentsDependencies {
  readonly store: DeploymentStore
  readonly apps: Apps
  readonly secrets: SecretBox
  readonly appsConfig: AppsConfig
  /** Whether `file:` addresses may be deployed: in local mode alone. */
  readonly allowFile: boolean
}

export interface Deployments {
  /** Accepts a deployment: its row and its job in one transaction. Throws `invalid_request` on a hostile address or branch. */
  create(
    transaction: Transaction,
    project: TenantProject,
    input: BodyOutput<'deployments.create'>,
  ): Promise<ResponseBody<'deployments.create'>>
  list(project: TenantProject, page: PageRequest): Promise<Page<ResponseBody<'deployments.list'>>>
  get(project: TenantProject, id: string): Promise<ResponseBody<'deployments.get'>>
}

export function createDeployments(dependencies: DeploymentsDependencies): Deployments {
  const { store, apps, secrets, appsConfig } = dependencies

  const itemOf = (row: DeploymentRow, name: string, url: string) => {
    return { id: row.id, name, status: row.status, url, created_at: row.created_at.toISOString() }
  }

  return {
    async create(transaction, project, input) {
      await checkSource(input, dependencies)
      const app = await apps.findOrCreate(project.id, input.name)
      const id = newId('deployment')
      const variables = secrets.encrypt(JSON.stringify(input.env_vars ?? {}), id)
      const row = await store.add(transaction, {
        id,
        projectId: project.id,
        appId: app.id,
        gitUrl: input.git_url,
        branch: input.branch ?? null,
        variables,
      })
      await enqueue(transaction, { task: deployTask, payload: { deployment_id: id }, queue: app.id })
      return itemOf(row, app.name, publicUrl(app.address, appsConfig))
    },

    async list(project, page) {
      const { rows, next } = cutPage(await store.list(project.id, page), page)
      const items = rows.map((row) => itemOf(row, row.app_name, publicUrl(addressOf(row), appsConfig)))
      return { body: { deployments: items }, next }
    },

    async get(project, id) {
      const row = await store.get(project.id, id)
      if (row === undefined) throw notFound()
      return {
        ...itemOf(row, row.app_name, publicUrl(addressOf(row), appsConfig)),
        project_id: row.project_id,
        git_url: row.git_url,
        branch: row.branch,
        commit: row.commit,
        failure: row.failure,
        started_at: row.started_at?.toISOString() ?? null,
        finished_at: row.finished_at?.toISOString() ?? null,
      }
    },
  }
}

async function checkSource(
  input: BodyOutput<'deployments.create'>,
  options: { readonly allowFile: boolean },
): Promise<void> {
  const source = parseGitUrl(input.git_url, options)
  const problems = 'field' in source ? [source] : []
  const branch = input.branch === undefined ? undefined : branchProblem(input.branch)
  if (branch !== undefined) problems.push({ field: 'branch', message: branch })
  if (!('field' in source) && source.protocol === 'file' && !(await isLocalRepository(source))) {
    problems.push({ field: 'git_url', message: 'there is no git repository at this path' })
  }
  const [first, ...others] = problems
  if (first !== undefined) throw invalidRequest(first, ...others)
}
