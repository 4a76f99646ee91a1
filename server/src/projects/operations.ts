import { ApiError } from '../contract/errors.ts'
import type { Handlers } from '../http/mount.ts'
import type { Projects } from './projects.ts'

export function projectOperations(projects: Projects): Handlers<'projects.list' | 'projects.create' | 'projects.get'> {
  return {
    'projects.list': ({ principal }) => projects.list(principal),
    'projects.create': async ({ principal, body }) => {
      if (principal.projectIds !== null) {
        throw new ApiError('forbidden', 'This API key is bound to its projects and cannot create others.')
      }
      return projects.create(principal, body)
    },
    'projects.get': ({ project }) => projects.get(project),
  }
}
