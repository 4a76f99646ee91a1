import type { Seeded } from './seed.ts'

/** Every page behind the sign-in, by a name for it. */
export function pagesOf(seeded: Seeded): Record<string, string> {
  const project = `/projects/${seeded.projectId}`
  return {
    projects: '/projects',
    'get-started': '/get-started',
    project,
    deployments: `${project}/deployments`,
    deployment: `${project}/deployments/${seeded.runningId}`,
    failed: `${project}/deployments/${seeded.failedId}`,
    databases: `${project}/databases`,
    database: `${project}/databases/${seeded.databaseId}`,
    storage: `${project}/storage`,
    'project-settings': `${project}/settings`,
    webhooks: '/webhooks',
    webhook: `/webhooks/${seeded.webhookId}`,
    'api-keys': '/settings/api-keys',
    sessions: '/settings/sessions',
    account: '/settings/account',
    'audit-log': '/settings/audit-log',
    'not-found': '/nowhere',
  }
}
