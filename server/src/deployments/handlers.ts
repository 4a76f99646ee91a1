import type { HandlersOf } from '../http/call.ts'
import type { Deployments } from './deployments.ts'

export function deploymentHandlers(deployments: Deployments): HandlersOf<'deployments'> {
  return {
    'deployments.list': ({ project, page }) => deployments.list(project, page),
    'deployments.create': ({ project, transaction, body }) => deployments.create(transaction, project, body),
    'deployments.get': ({ project, params }) => deployments.get(project, params.id),
  }
}
