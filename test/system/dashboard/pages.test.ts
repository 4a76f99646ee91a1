import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { chromiumPath, noChromium } from '../../harness/chromium.ts'
import { type SharedDashboard, sharedDashboard } from '../../harness/dashboard/of-run.ts'
import { openPage, pagesOf } from '../../harness/dashboard/pages.ts'
import { type Seeded, seed } from '../../harness/dashboard/seed.ts'
import { deployAndSettle } from '../../harness/deployments.ts'
import { repository } from '../../harness/repository.ts'
import { phone, problemsOfDialog, problemsOnDeskAndPhone, seriousViolations } from './accessibility.ts'
import { hostileApp } from './hostile-app.ts'

if (chromiumPath === undefined) noChromium('the accessibility of every page, both themes, phones; a hostile app')

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

  it('are accessible in both themes, and fit a desk and a phone', async () => {
    const { context, page } = await dashboard.signedIn()
    const found: string[] = []
    for (const [name, path] of Object.entries(pagesOf(seeded))) {
      await page.emulateMedia({ colorScheme: 'light' })
      await page.setViewportSize({ width: 1280, height: 800 })
      await open(page, path)
      found.push(...(await problemsOnDeskAndPhone(page)).map((problem) => `${name}: ${problem}`))
    }
    expect(found).toEqual([])
    await context.close()
  })

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
      await open(page, path)
      await page.getByRole('button', { name: button }).click()
      await page.getByRole('dialog').waitFor()
      await check(button)
    }
    await page.keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
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

  it('keep a chosen theme that differs from that of the system', async () => {
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

  it('can be used by keyboard alone', async () => {
    const { context, page } = await dashboard.signedIn()
    await open(page, '/projects')
    await page.keyboard.press('Tab')
    expect(await page.evaluate<string>('document.activeElement.textContent')).toBe('Skip to the content')
    await page.keyboard.press('Enter')
    await page.keyboard.press('Tab')
    expect(await page.evaluate<string>('document.activeElement.textContent')).toBe('New project')
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

  it('tell when the browser is offline, and keep the data', async () => {
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

  it('give the number of requests to the apps of a project in words, too', async () => {
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

  it('tell that GitHub cannot reach a laptop, and where existing users sign in', async () => {
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

  it('cause no errors and no requests to other origins', () => {
    expect(dashboard.pageErrors.filter(({ page }) => page.startsWith(dashboard.server.url))).toEqual([])
  })
})
