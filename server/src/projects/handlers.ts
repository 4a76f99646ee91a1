import type { HandlersOf } from '../http/call.ts'
import type { ProjectRequests } from './projects.ts'

export function projectHandlers(projects: ProjectRequests): HandlersOf<'projects'> {
  return {
    'projects.list': ({ principal, page }) => projects.list(principal, page),
    'projects.create': ({ principal, transaction, body }) => projects.create(transaction, principal, body),
    'projects.get': ({ project }) => projects.get(project),
    'projects.update': ({ principal, transaction, project, body }) => {
      return projects.update(transaction, principal, project, body)
    },
    'projects.delete': async ({ transaction, project }) => {
      await projects.delete(transaction, project)
      return undefined
    },
    'projects.usage': ({ principal, page }) => projects.usage(principal, page),
    'projects.traffic': ({ project }) => projects.traffic(project),
  }
}
