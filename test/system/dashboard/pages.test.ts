import type { Page, Request } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { chromiumPath, noChromium } from '../../harness/chromium.ts'
import { type SharedDashboard, sharedDashboard } from '../../harness/dashboard/of-run.ts'
import { openPage, pagesOf } from '../../harness/dashboard/pages.ts'
import { type Seeded, seed } from '../../harness/dashboard/seed.ts'
import { deployAndSettle } from '../../harness/deployments.ts'
import { repository } from '../../harness/repository.ts'
import { phone, problemsOfDialog, problemsOnDeskAndPhone, seriousViolations } from './accessibility.ts'
import { hostileApp } from './hostile-app.ts'
import { addCopies } from './many.ts'

if (chromiumPath === undefined)
  noChromium('the accessibility and requests of every page, both themes, phones; a hostile app')

/** The overview of a project needs this many: one for each kind of data on it. */
const mostRequests = 7

describe.skipIf(chromiumPath === undefined)('the pages', () => {
  let dashboard: SharedDashboard
  let seeded: Seeded
  beforeAll(async () => {
    dashboard = await sharedDashboard()
    seeded = await seed(dashboard.client, dashboard.server)
  })
  afterAll(async () => {
    await seeded?.[Symbol.asyncDispose]()
    await dashboard?.[Symbol.asyncDispose]()
  })

  const open = (page: Page, path: string) => openPage(page, dashboard.server.url + path)

  it('are accessible with an open dialog, which fits a phone', async () => {
    const { context, page } = await dashboard.signedIn({ viewport: phone })
    const found: string[] = []
    const check = async (name: string) => {
      found.push(...(await problemsOfDialog(page)).map((problem) => `${name}: ${problem}`))
    }
    for (const [path, button] of [
      ['/projects', 'New project'],
      ['/settings/api-keys', 'Create new key'],
      ['/settings/certificates', 'Upload'],
      ['/webhooks', 'New endpoint'],
      [`/projects/${seeded.projectId}/deployments`, 'Deploy'],
      [`/projects/${seeded.projectId}/apps/${seeded.appId}/variables`, 'Add variables'],
      [`/projects/${seeded.projectId}/apps/${seeded.appId}/variables`, 'Link a database'],
      [`/projects/${seeded.projectId}/apps/${seeded.appId}/variables`, 'Apply'],
      [`/projects/${seeded.projectId}/apps/${seeded.appId}/schedules`, 'New schedule'],
      [`/projects/${seeded.projectId}/databases`, 'New database'],
    ] as const) {
      if (!page.url().endsWith(path)) await open(page, path)
      await page.getByRole('button', { name: button }).click()
      await page.getByRole('dialog').waitFor()
      await check(button)
      await page.keyboard.press('Escape')
      await page.getByRole('dialog').waitFor({ state: 'detached' })
    }
    await page.keyboard.press('Control+k')
    await page.getByRole('option', { name: /^storefront/ }).waitFor()
    await check('palette')
    await open(page, `/webhooks/${seeded.webhookId}`)
    await page.getByRole('button', { name: 'ping' }).click()
    await page.getByText('Attempt 1').waitFor()
    await check('delivery')
    await context.clearCookies()
    for (const path of ['/sign-in', '/setup#nothing']) {
      await open(page, path)
      found.push(...(await seriousViolations(page)).map((violation) => `${path}: ${violation}`))
    }
    expect(found).toEqual([])
    await context.close()
  })

  it('keep a chosen theme that differs from the system’s', async () => {
    const { context, page } = await dashboard.signedIn({ colorScheme: 'light' })
    await open(page, '/projects')
    await page.getByTitle('Dark').click()
    const scheme = () => page.evaluate<string>('getComputedStyle(document.documentElement).colorScheme')
    await expect.poll(scheme).toBe('dark')
    await page.reload()
    await page.getByRole('heading', { level: 1 }).waitFor()
    await expect.poll(scheme).toBe('dark')
    await context.close()
  })

  it('can be used with only the keyboard', async () => {
    const { context, page } = await dashboard.signedIn()
    await open(page, '/projects')
    const focused = () => page.evaluate<string>('document.activeElement.textContent')
    await page.keyboard.press('Tab')
    await expect.poll(focused).toBe('Skip to the content')
    await page.keyboard.press('Enter')
    await page.keyboard.press('Tab')
    await expect.poll(focused).toBe('New project')
    await page.keyboard.press('Enter')
    await page.getByRole('dialog').waitFor()
    await page.keyboard.type('By keyboard')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { level: 1, name: 'By keyboard' }).waitFor()
    await context.close()
  })

  it('have a menu on a phone', async () => {
    const { context, page } = await dashboard.signedIn({ viewport: phone, hasTouch: true })
    await open(page, '/projects')
    expect(await page.getByRole('link', { name: 'Webhooks' }).isVisible()).toBe(false)
    await page.getByRole('button', { name: 'Menu' }).tap()
    await page.getByRole('link', { name: 'Webhooks' }).tap()
    await page.getByRole('heading', { level: 1, name: 'Webhooks' }).waitFor()
    await page.getByRole('link', { name: 'Get started' }).waitFor({ state: 'hidden' })
    await context.close()
  })

  it('keep the sign-out button visible beside a long e-mail address', async () => {
    const { context, page } = await dashboard.signedIn({ viewport: { width: 1120, height: 700 } })
    await page.route('**/dashboard/api/session', async (route) => {
      const answer = await route.fetch()
      const session = (await answer.json()) as { user: object }
      await route.fulfill({
        json: { ...session, user: { ...session.user, email: `${'long'.repeat(15)}@example.com` } },
      })
    })
    await open(page, '/projects')
    const out = await page.getByRole('button', { name: 'Sign out' }).boundingBox()
    const main = await page.locator('#main').boundingBox()
    expect((out?.x ?? 0) + (out?.width ?? 0)).toBeLessThanOrEqual(main?.x ?? 0)
    await context.close()
  })

  it('report when the browser is offline, and keep the data', async () => {
    const { context, page } = await dashboard.signedIn()
    await open(page, '/projects')
    await context.setOffline(true)
    await page.getByText('You are offline').waitFor()
    expect(await page.getByRole('link', { name: 'Shop' }).isVisible()).toBe(true)
    await context.setOffline(false)
    await page.getByText('You are offline').waitFor({ state: 'detached' })
    await context.close()
    dashboard.pageErrors.splice(0)
  })

  it('also give the number of requests to a project’s apps in words', async () => {
    const { context, page } = await dashboard.signedIn()
    await open(page, `/projects/${seeded.projectId}`)
    const chart = page.getByRole('region', { name: 'Requests in the last 24 hours' })
    await chart.getByText(/^\d{2,} requests, /).waitFor()
    expect(await chart.getByRole('img').getAttribute('aria-label')).toMatch(/^\d{2,} requests, /)
    await context.close()
  })

  it('name the browser of a session', async () => {
    const { context, page } = await dashboard.signedIn()
    await open(page, '/settings/sessions')
    const own = page.getByRole('row').filter({ hasText: 'this session' }).getByTitle('node', { exact: true })
    expect(await own.textContent()).toBe('node')
    await context.close()
  })

  it('give the exact time on hover', async () => {
    const { context, page } = await dashboard.signedIn()
    await open(page, '/projects')
    const time = page.getByRole('row', { name: /Shop/ }).locator('time')
    expect(await time.getAttribute('title')).toMatch(/\d{4}.*\d:\d\d/)
    await context.close()
  })

  it('show one error for a project that does not exist, and do not request it again', async () => {
    const { context, page } = await dashboard.signedIn()
    let requests = 0
    page.on('request', (request) => {
      if (request.url().endsWith('/projects/proj_00000000000000000000000000') && !request.isNavigationRequest())
        requests++
    })
    await page.clock.install()
    await open(page, '/projects/proj_00000000000000000000000000')
    const alert = page.getByRole('alert').first()
    await alert.waitFor()
    expect(await alert.textContent()).toMatch(/Request [\w-]+/)
    expect(await page.getByRole('alert').count()).toBe(1)
    expect(await page.getByRole('navigation', { name: 'Project' }).count()).toBe(0)
    await page.clock.runFor(60_000)
    expect(requests).toBe(1)
    await context.close()
  })

  it('show the current tab on a phone, and no button over code', async () => {
    const { context, page } = await dashboard.signedIn({ viewport: phone })
    await open(page, `/projects/${seeded.projectId}/settings`)
    const tab = page.getByRole('navigation', { name: 'Project' }).getByRole('link', { name: 'Settings' })
    const right = async () => ((await tab.boundingBox())?.x ?? 0) + ((await tab.boundingBox())?.width ?? 0)
    await expect.poll(right).toBeLessThanOrEqual(390)
    await open(page, '/get-started')
    const code = await page.getByRole('region', { name: 'Workflow' }).boundingBox()
    const copy = await page.getByRole('button', { name: 'Copy' }).first().boundingBox()
    expect(code).not.toBeNull()
    expect((copy?.y ?? 0) + (copy?.height ?? 0)).toBeLessThanOrEqual(code?.y ?? 0)
    await context.close()
  })

  it('offer to create a first project only once the projects are loaded', async () => {
    const { context, page } = await dashboard.signedIn()
    const requested = Promise.withResolvers<void>()
    const respond = Promise.withResolvers<void>()
    await page.route('**/dashboard/api/projects*', async (route) => {
      requested.resolve()
      await respond.promise
      await route.continue()
    })
    await page.goto(`${dashboard.server.url}/get-started`)
    await requested.promise
    await page.getByText('Loading your projects').waitFor()
    expect(await page.getByRole('button', { name: 'Create a project' }).count()).toBe(0)
    respond.resolve()
    await page.getByLabel('Deploy into').waitFor()
    await context.close()
  })

  it('report that GitHub cannot reach a laptop, and where existing users sign in', async () => {
    const { context, page } = await dashboard.signedIn()
    await open(page, '/get-started')
    await page.getByText('GitHub cannot reach a server on a laptop').waitFor()
    await page.getByRole('link', { name: 'the project', exact: true }).click()
    await page.getByRole('button', { name: 'Deploy' }).waitFor()
    await open(page, '/setup#nothing')
    await page.getByRole('link', { name: 'sign in', exact: true }).click()
    await page.waitForURL(/\/sign-in/)
    await context.close()
  })

  it('give an app on another port of the host no access to the session', async () => {
    await using hostile = await repository(hostileApp)
    const { context, page, api } = await dashboard.signedIn()
    const { url } = await deployAndSettle(api.client, seeded.projectId, { name: 'hostile', git_url: hostile.url })
    await page.goto(`${url}/?api=${encodeURIComponent(`${dashboard.server.url}/dashboard/api`)}`)
    await page.getByText('done').waitFor()
    expect(JSON.parse((await page.locator('#seen').textContent()) ?? '')).toEqual({
      sent: null,
      read: '',
      answer: 'blocked',
    })
    const before = await api.client.projects.list({})
    expect(before.projects.map(({ name }) => name)).not.toContain('forged')
    await open(page, '/settings/sessions')
    await page.getByText('this session').waitFor()
    await context.close()
  })

  describe('of 303 projects and 520 deployments', () => {
    beforeAll(() => fill(dashboard, seeded))

    const projects = (page: Page) => page.getByRole('row', { name: /^Project \d/ }).first()

    it('need at most 7 requests each, request nothing row by row, are accessible in both themes, and fit a desktop and a phone', {
      timeout: 600_000,
    }, async () => {
      const { context, page } = await dashboard.signedIn()
      page.setDefaultTimeout(60_000)
      const requests = watchRequests(page)
      await page.clock.install()
      const found: string[] = []
      for (const [name, path] of Object.entries(pagesOf(seeded))) {
        await page.emulateMedia({ colorScheme: 'light' })
        await page.setViewportSize({ width: 1280, height: 720 })
        requests.begin()
        await open(page, path)
        await requests.answered()
        if (requests.made.length > mostRequests) found.push(`${name}: ${requests.made.join(' ')}`)
        // The page requests again after the pause of pages with quiet data.
        requests.begin()
        await page.clock.runFor(10_100)
        await requests.answered()
        const perResource = Map.groupBy(requests.made, (request) => request.replace(/\w+_\w{26}/g, ':id'))
        for (const [route, asked] of perResource) {
          if (new Set(asked).size > 1) found.push(`${name}, again: ${new Set(asked).size} × ${route}`)
        }
        found.push(...(await problemsOnDeskAndPhone(page)).map((problem) => `${name}: ${problem}`))
      }
      expect(found).toEqual([])
      await context.close()
    })

    it('shows a heading and lines in place of the content before its scripts are loaded', async () => {
      const { context, page } = await dashboard.signedIn()
      const held = Promise.withResolvers<void>()
      await page.route('**/assets/*.js', async (route) => {
        await held.promise
        await route.continue()
      })
      await page.goto(`${dashboard.server.url}/projects`, { waitUntil: 'commit' })
      await page.getByRole('heading', { name: 'Projects', level: 1 }).waitFor()
      await page.getByText('Loading the page…').waitFor()
      await page.locator('main .animate-pulse').waitFor()
      held.resolve()
      await projects(page).waitFor()
      expect(await page.getByRole('heading', { level: 1 }).count()).toBe(1)
      await context.close()
    })

    it('reloads a style that did not arrive, and keeps the page', async () => {
      const { context, page } = await dashboard.signedIn()
      page.setDefaultTimeout(60_000)
      await page.route('**/assets/index-*.css', (route) => route.abort(), { times: 2 })
      await page.goto(`${dashboard.server.url}/projects`)
      await projects(page).waitFor()
      await page.evaluate('globalThis.kept = true')
      await expect.poll(() => page.evaluate('getComputedStyle(document.documentElement).fontSize')).toBe('14px')
      expect(await page.evaluate('globalThis.kept')).toBe(true)
      await context.close()
    })

    it('reloads a page when none of its scripts arrived', async () => {
      const { context, page } = await dashboard.signedIn()
      page.setDefaultTimeout(60_000)
      let loads = 0
      await page.route('**/projects', (route) => {
        if (route.request().isNavigationRequest()) loads += 1
        return route.continue()
      })
      await page.route('**/*.js', (route) => (loads === 1 ? route.abort() : route.continue()))
      // The page may reload itself before all of it has arrived, which must not interrupt this call.
      await page.goto(`${dashboard.server.url}/projects`, { waitUntil: 'commit' })
      await projects(page).waitFor()
      expect(loads).toBe(2)
      await context.close()
    })
  })

  it('cause no errors and no requests to other origins', () => {
    const ofPages = dashboard.pageErrors.filter(({ page }) => page.startsWith(dashboard.server.url))
    // Two tests block scripts and styles of a page.
    expect(ofPages.filter(({ text }) => !text.includes('net::ERR_FAILED'))).toEqual([])
  })
})

/** Fills the account up to 303 projects, and one project up to 520 deployments. */
async function fill({ database, accountId }: SharedDashboard, { projectId, failedId }: Seeded): Promise<void> {
  const count = async (table: 'projects' | 'deployments') =>
    (await database.query(`select id from ${table} where account_id = $1`, [accountId])).length
  const projects = 303 - (await count('projects'))
  await addCopies(
    database,
    'projects',
    projectId,
    Array.from({ length: projects }, (_, index) => ({ name: `Project ${index + 1}` })),
  )
  const deployments = 520 - (await count('deployments'))
  const [{ most } = { most: 0 }] = await database.query<{ most: number }>(
    'select max(generation) as most from deployments where account_id = $1',
    [accountId],
  )
  const copies = Array.from({ length: deployments }, (_, index) => ({ generation: Number(most) + index + 1 }))
  await addCopies(database, 'deployments', failedId, copies)
}

/** Records the requests to the API, each by its path without the query. Log streams are not awaited. */
function watchRequests(page: Page) {
  const made: string[] = []
  const open = new Set<Request>()
  page.on('request', (request) => {
    const { pathname } = new URL(request.url())
    if (!pathname.startsWith('/dashboard/api/')) return
    made.push(pathname.slice('/dashboard/api'.length))
    if (!pathname.endsWith('/logs')) open.add(request)
  })
  page.on('requestfinished', (request) => void open.delete(request))
  page.on('requestfailed', (request) => void open.delete(request))
  const begin = () => {
    made.length = 0
  }
  /** Resolves when all requests are answered, and the responses have led to no others. */
  const answered = async () => {
    for (let before = -1; before < made.length || open.size > 0; ) {
      await expect.poll(() => open.size, { timeout: 60_000 }).toBe(0)
      before = made.length
      await page.evaluate('new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))')
    }
  }
  return { made, begin, answered }
}
