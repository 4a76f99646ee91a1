import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { chromiumPath, noChromium } from '../../harness/chromium.ts'
import { type SharedDashboard, sharedDashboard } from '../../harness/dashboard/of-run.ts'

if (chromiumPath === undefined) noChromium('the session of several tabs')

describe.skipIf(chromiumPath === undefined)('the session of a browser', () => {
  let dashboard: SharedDashboard
  beforeAll(async () => {
    dashboard = await sharedDashboard()
  })
  afterAll(() => dashboard?.[Symbol.asyncDispose]())

  const url = (path: string) => dashboard.server.url + path
  const signIn = async (page: Page) => {
    await page.getByLabel('E-mail').fill(dashboard.user.email)
    await page.getByLabel('Password').fill(dashboard.user.password)
    await page.getByRole('button', { name: 'Sign in' }).click()
  }
  const sessions = (page: Page) => page.getByText('this session').waitFor()

  it('is shared by all its tabs, which sign in and out together', async () => {
    const context = await dashboard.context()
    const first = await context.newPage()
    await first.goto(url('/sign-in?next=/settings/account'))
    await signIn(first)
    await first.getByText('Signed in as').waitFor()
    const second = await context.newPage()
    await second.goto(url('/settings/sessions'))
    await sessions(second)

    await first.getByRole('button', { name: 'Sign out' }).click()
    await Promise.all([first, second].map((page) => page.waitForURL(/\/sign-in/)))
    expect(await first.evaluate('localStorage.getItem("fairlead-session")')).toBeNull()
    await signIn(first)
    await second.waitForURL(url('/settings/sessions'))
    await sessions(second)
    await context.close()
  })

  it('continues in the other tabs when one signs in again', async () => {
    const { context, page } = await dashboard.signedIn()
    await page.goto(url('/settings/sessions'))
    await sessions(page)
    const other = await context.newPage()
    await other.goto(url('/sign-in?next=/settings/sessions'))
    await signIn(other)
    await sessions(other)
    await page.reload()
    await sessions(page)
    await context.close()
  })

  it('ends when the cookie is lost, and begins again at the requested page', async () => {
    const { context, page } = await dashboard.signedIn()
    await context.clearCookies()
    await page.goto(url('/settings/sessions'))
    await page.waitForURL(/\/sign-in\?next=/)
    await signIn(page)
    await sessions(page)
    await context.close()
  })

  it('begins and ends when a network change aborts the first request', async () => {
    const context = await dashboard.context()
    const page = await context.newPage()
    const lost: string[] = []
    await page.route('**/dashboard/api/session', (route) => {
      const method = route.request().method()
      if (method === 'GET' || lost.includes(method)) return route.continue()
      lost.push(method)
      return route.abort('internetdisconnected')
    })
    await page.goto(url('/sign-in?next=/settings/sessions'))
    await signIn(page)
    await sessions(page)
    await page.getByRole('button', { name: 'Sign out' }).first().click()
    await page.waitForURL(/\/sign-in/)
    expect(lost).toEqual(['POST', 'DELETE'])
    await context.close()
  })

  it('waits and says so when the account has used its requests, and continues by itself', async () => {
    const { context, page } = await dashboard.signedIn()
    let refused = 0
    await page.route('**/dashboard/api/projects', async (route) => {
      if (refused >= 3) return route.continue()
      refused += 1
      await route.fulfill({
        status: 429,
        headers: { 'retry-after': '2', 'x-ratelimit-remaining': '0' },
        json: { error: { code: 'rate_limit_exceeded', message: 'too many', details: { retry_after: 2 } } },
      })
    })
    await page.goto(url('/projects'))
    await page.getByText("This account has used the dashboard's requests of this hour.").waitFor()
    await page.getByText('No project yet').waitFor({ timeout: 60_000 })
    await page.getByText("This account has used the dashboard's requests of this hour.").waitFor({ state: 'detached' })
    expect(refused).toBe(3)
    await context.close()
  })
})
