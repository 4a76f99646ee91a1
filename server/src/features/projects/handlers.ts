import type { HandlersOf } from '../../http/call.ts'
import type { Transaction } from '../../platform/database.ts'
import type { ProjectRequests } from './projects.ts'

/** Does the work of other features in the transaction that begins the deletion of a project. */
export type OnDelete = (transaction: Transaction, projectId: string) => Promise<void>

export function projectHandlers(projects: ProjectRequests, onDelete: OnDelete): HandlersOf<'projects'> {
  return {
    'projects.list': ({ principal, page }) => projects.list(principal, page),
    'projects.create': ({ principal, transaction, body }) => projects.create(transaction, principal, body),
    'projects.get': ({ project }) => projects.get(project),
    'projects.update': ({ principal, transaction, project, body }) => {
      return projects.update(transaction, principal, project, body)
    },
    'projects.delete': async ({ transaction, project }) => {
      await projects.delete(transaction, project)
      await onDelete(transaction, project.id)
      return undefined
    },
    'projects.usage': ({ principal, page }) => projects.usage(principal, page),
    'projects.traffic': ({ project }) => projects.traffic(project),
  }
}
