import type { Page } from 'playwright-core'
import type { Seeded } from './seed.ts'

/** Returns the path of every page for signed-in users, by the page's name. */
export function pagesOf(seeded: Seeded): Record<string, string> {
  const project = `/projects/${seeded.projectId}`
  return {
    projects: '/projects',
    'get-started': '/get-started',
    project,
    app: `${project}/apps/${seeded.appId}`,
    'app-overview': `${project}/apps/${seeded.appId}/overview`,
    'app-logs': `${project}/apps/${seeded.appId}/logs`,
    metrics: `${project}/apps/${seeded.appId}/metrics`,
    processes: `${project}/apps/${seeded.appId}/processes`,
    schedules: `${project}/apps/${seeded.appId}/schedules`,
    schedule: `${project}/apps/${seeded.appId}/schedules/${seeded.scheduleId}`,
    run: `${project}/apps/${seeded.appId}/run`,
    'app-settings': `${project}/apps/${seeded.appId}/settings`,
    deployments: `${project}/deployments`,
    deployment: `${project}/deployments/${seeded.runningId}`,
    superseded: `${project}/deployments/${seeded.supersededId}`,
    failed: `${project}/deployments/${seeded.failedId}`,
    variables: `${project}/apps/${seeded.appId}/variables`,
    'no-domains': `${project}/apps/${seeded.appId}/domains`,
    databases: `${project}/databases`,
    database: `${project}/databases/${seeded.databaseId}`,
    storage: `${project}/storage`,
    trust: `${project}/trust`,
    'project-settings': `${project}/settings`,
    webhooks: '/webhooks',
    webhook: `/webhooks/${seeded.webhookId}`,
    'api-keys': '/settings/api-keys',
    certificates: '/settings/certificates',
    sessions: '/settings/sessions',
    account: '/settings/account',
    'audit-log': '/settings/audit-log',
    'not-found': '/nowhere',
  }
}

/** Opens a page, and waits until its data and styles are loaded. */
export async function openPage(page: Page, url: string): Promise<void> {
  await page.goto(url)
  // The page has another heading until the scripts are loaded.
  await page.locator('main[aria-busy=true]').waitFor({ state: 'detached' })
  await page.getByRole('heading', { level: 1 }).waitFor()
  await page
    .getByText(/^Loading /)
    .first()
    .waitFor({ state: 'detached' })
  await page.evaluate(`new Promise((resolve) => {
  const look = () => (document.styleSheets.length > 0 ? resolve() : requestAnimationFrame(look))
  look()
})`)
}
