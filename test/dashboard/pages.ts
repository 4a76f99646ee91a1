import type { Page } from 'playwright-core'
import type { Seeded } from './seed.ts'

/** Returns the path of every page for signed-in users, by a name of the page. */
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

/** Opens a page and waits until its data is loaded. */
export async function openPage(page: Page, url: string): Promise<void> {
  await page.goto(url)
  await page.getByRole('heading', { level: 1 }).waitFor()
  await page
    .getByText(/^Loading /)
    .first()
    .waitFor({ state: 'detached' })
}
