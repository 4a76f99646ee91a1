import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { newId } from '../../../server/src/platform/ids.ts'
import { chromiumPath, noChromium } from '../../harness/chromium.ts'
import { ownDashboard } from '../../harness/dashboard/of-run.ts'
import { openPage } from '../../harness/dashboard/pages.ts'
import type { Dashboard } from '../../harness/dashboard.ts'

if (chromiumPath === undefined) noChromium('the palette, usage and plans')

describe.skipIf(chromiumPath === undefined)('with 303 projects', () => {
  let dashboard: Dashboard
  let oldest = ''
  const cleanup = new AsyncDisposableStack()
  beforeAll(async () => {
    const own = cleanup.use(await ownDashboard({ FAIRLEAD_REGIONS: 'eu-1,us-2', FAIRLEAD_DEFAULT_REGION: 'us-2' }))
    dashboard = own
    const { database } = own
    const { client } = await dashboard.makeUser()
    oldest = (await client.projects.create({ body: { name: 'Bakery' } })).id
    // No test connects to it.
    await database.query(
      `insert into databases (id, role_name, project_id, name, plan, engine, version, host, port, password, status, available_at)
       values ($1, $1, $2, 'recipes', 'free', 'external', '17', '127.0.0.1', 5432, '', 'available', now())`,
      [newId('database'), oldest],
    )
    // To simulate hours of use.
    await database.query(
      `insert into projects (id, account_id, name, region, plan, status)
       select made.id, account_id, 'Project ' || number, region, plan, status
       from projects, unnest($1::text[]) with ordinality as made (id, number) where projects.id = $2`,
      [Array.from({ length: 302 }, () => newId('project')), oldest],
    )
  })
  afterAll(() => cleanup.disposeAsync())

  const open = async (path: string, options?: Parameters<Dashboard['signedIn']>[0]) => {
    const { context, page } = await dashboard.signedIn(options)
    page.setDefaultTimeout(60_000)
    await openPage(page, dashboard.server.url + path)
    return { page, [Symbol.asyncDispose]: () => context.close() }
  }
  const searches = (page: Page): string[] => {
    const seen: string[] = []
    page.on('request', (request) => {
      const { pathname, search } = new URL(request.url())
      if (pathname === '/dashboard/api/account/search') seen.push(search)
    })
    return seen
  }

  it('the palette finds everything by the keyboard, with one request when it opens', async () => {
    await using opened = await open('/projects')
    const { page } = opened
    const seen = searches(page)
    await page.keyboard.press('Control+k')
    await page.getByRole('option', { name: 'Project 302' }).waitFor()
    expect(seen).toHaveLength(1)

    await page.keyboard.type('recip')
    const recipes = page.getByRole('option', { name: /^recipes/ })
    await expect.poll(() => recipes.getAttribute('aria-selected')).toBe('true')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { level: 1, name: 'recipes' }).waitFor()
    await expect.poll(() => page.evaluate<string>('document.activeElement.tagName')).toBe('H1')

    await page.keyboard.press('Control+k')
    await page.keyboard.type('bakery stor')
    await page
      .getByRole('option', { name: /^Storage/ })
      .first()
      .waitFor()
    await page.keyboard.press('Enter')
    await page.waitForURL(new RegExp(`/projects/${oldest}/storage$`))

    await page.keyboard.press('Control+k')
    await page.keyboard.type('nothing of this name')
    await page.getByText('Nothing has that name.').waitFor()
    await page.keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    await page.keyboard.press('Control+k')
    await page.keyboard.type('new data')
    await page.keyboard.press('Enter')
    await page.getByRole('dialog', { name: 'New database' }).waitFor()
  })

  it('a project is switched on a phone', async () => {
    await using opened = await open('/webhooks', { viewport: { width: 390, height: 844 }, hasTouch: true })
    const { page } = opened
    await page.getByRole('button', { name: 'Menu' }).tap()
    await page.getByRole('button', { name: 'Switch project' }).tap()
    await page.getByRole('combobox').fill('bak')
    expect(await page.evaluate<number>('document.documentElement.scrollWidth - innerWidth')).toBe(0)
    await page.getByRole('option', { name: /^Bakery/ }).tap()
    await page.getByRole('heading', { level: 1, name: 'Bakery' }).waitFor()
    await page.getByRole('button', { name: 'Go to' }).tap()
    await page.getByRole('option', { name: /^Audit log/ }).tap()
    await page.getByRole('heading', { level: 2, name: 'Audit log' }).waitFor()
  })

  it('the usage of the account is shown against its limits', async () => {
    await using opened = await open('/settings/account')
    const { page } = opened
    const usage = page.getByRole('region', { name: 'Usage of all projects together' })
    await usage.getByText('303 of 2,000').first().waitFor()
    expect(await usage.getByRole('meter', { name: 'Databases' }).textContent()).toBe('1 of 1,000')
  })

  it('plans and regions are chosen from the available ones, with their limits', async () => {
    await using opened = await open('/projects')
    const { page } = opened
    await page.getByRole('button', { name: 'New project' }).click()
    await page.getByLabel('Name').fill('Chosen')
    await page.getByLabel('Plan').selectOption('pro')
    await page
      .getByText(
        '25 apps of up to 10 instances (1,000 MB, 1 CPU), 50 domains and 20 GB on the disk; 10 databases; 100 GB of files.',
      )
      .waitFor()
    expect(await page.getByLabel('Region').inputValue()).toBe('us-2')
    await page.getByLabel('Region').selectOption('eu-1')
    await page.getByRole('button', { name: 'Create project' }).click()
    await page.getByRole('heading', { level: 1, name: 'Chosen' }).waitFor()
    await page.getByRole('link', { name: 'Settings' }).last().click()
    await expect.poll(() => page.getByLabel('Plan').inputValue()).toBe('pro')
  })

  it('no page causes an error', () => {
    expect(dashboard.pageErrors).toEqual([])
  })
})
