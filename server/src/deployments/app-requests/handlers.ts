import type { BodyOutput, ResponseBody } from '../../contract/operations.ts'
import type { HandlersOf } from '../../http/call.ts'
import type { Principal, TenantProject } from '../../http/principal.ts'
import type { Transaction } from '../../platform/database.ts'
import type { App } from '../app-directory.ts'
import type { AppRequests } from './apps.ts'
import type { LinkRequests } from './links.ts'
import type { VariableRequests } from './variables.ts'

/** Deploys the commit that serves an app again, with the variables that the app has now, under the lock of the app. */
type Apply = (
  transaction: Transaction,
  project: TenantProject,
  app: App,
  request: { readonly principal: Principal; readonly body: BodyOutput<'apps.apply'> },
) => Promise<ResponseBody<'apps.apply'>>

export function appHandlers(
  apps: AppRequests,
  variables: VariableRequests,
  apply: Apply,
): HandlersOf<'apps' | 'releases' | 'variables'> {
  return {
    'apps.list': ({ project, page }) => apps.list(project, page),
    'apps.get': ({ project, params }) => apps.get(project, params.id),
    'apps.update': ({ transaction, project, params, body }) => apps.rename(transaction, project, params.id, body.name),
    'apps.delete': async ({ transaction, project, params }) => {
      await apps.delete(transaction, project, params.id)
      return undefined
    },
    'apps.apply': async ({ transaction, principal, project, params, body }) => {
      const app = await apps.hold(transaction, project, params.id)
      return apply(transaction, project, app, { principal, body })
    },
    'releases.list': ({ project, params, query, page }) => apps.releases(project, params.app_id, query, page),
    'variables.list': ({ principal, project, params }) => variables.list({ principal, project, appId: params.app_id }),
    'variables.update': ({ transaction, principal, project, params, body }) =>
      variables.update(transaction, { principal, project, appId: params.app_id }, body),
    'variables.copy': ({ transaction, principal, project, params, body }) =>
      variables.copy(transaction, { principal, project, appId: params.app_id }, body),
    'variables.adopt': ({ transaction, principal, project, params }) =>
      variables.adopt(transaction, { principal, project, appId: params.app_id }),
  }
}

export function linkHandlers(links: LinkRequests): HandlersOf<'links'> {
  return {
    'links.list': ({ project }) => links.list(project),
    'links.create': ({ transaction, principal, project, body }) =>
      links.create(transaction, { principal, project }, body),
    'links.delete': async ({ transaction, project, params }) => {
      await links.delete(transaction, project, params.id)
      return undefined
    },
  }
}
