import type { Handlers } from '../http/mount.ts'
import type { Deployments } from './deployments.ts'

export function deploymentOperations(
  deployments: Deployments,
): Handlers<'deployments.list' | 'deployments.create' | 'deployments.get'> {
  return {
    'deployments.list': ({ project }) => deployments.list(project),
    'deployments.create': ({ project, body }) => deployments.create(project, body),
    'deployments.get': ({ project, params }) => deployments.get(project, params.id),
  }
}
