import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { chromiumPath, noChromium, signInOn } from '../../harness/chromium.ts'
import { type SharedDashboard, sharedDashboard } from '../../harness/dashboard/of-run.ts'
import { violationsOf } from './accessibility.ts'

if (chromiumPath === undefined) noChromium('the page that approves a login')

describe.skipIf(chromiumPath === undefined)('the page that approves a login', () => {
  let dashboard: SharedDashboard
  beforeAll(async () => {
    dashboard = await sharedDashboard()
  })
  afterAll(() => dashboard?.[Symbol.asyncDispose]())

  const post = async (path: string, body: object) => {
    const headers = { 'content-type': 'application/json' }
    const response = await fetch(dashboard.server.url + path, { method: 'POST', headers, body: JSON.stringify(body) })
    return (await response.json()) as Record<string, string>
  }
  const begin = (name: string) => post('/device/code', { name })
  const ask = (device_code: string | undefined) => post('/device/token', { device_code: device_code ?? '' })
  const heading = (page: Page, name: string) => page.getByRole('heading', { level: 1, name }).waitFor()

  it('asks for a sign-in first, shows machine and code, and gives the key, which then is in the list', async () => {
    const context = await dashboard.context()
    const page = await context.newPage()
    const login = await begin('workbench')
    await page.goto(login['verification_uri_complete'] ?? '')
    await signInOn(page, dashboard.user)
    await heading(page, 'Approve a login?')
    await page.getByText(login['user_code'] ?? 'no code', { exact: true }).waitFor()
    await page.getByText('workbench', { exact: true }).waitFor()
    await page.getByRole('button', { name: 'Approve' }).click()
    await heading(page, 'Login approved')
    expect((await ask(login['device_code']))['api_key']).toMatch(/^fl_/)
    await page.getByRole('link', { name: 'API keys' }).click()
    await page.getByText('fairlead login on workbench').waitFor()
    await context.close()
  })

  it('takes a typed code, and refuses', async () => {
    const { context, page } = await dashboard.signedIn()
    const login = await begin('stranger')
    await page.goto(`${dashboard.server.url}/device`)
    await page.getByLabel('Code').fill(login['user_code']?.toLowerCase() ?? '')
    await page.getByRole('button', { name: 'Continue' }).click()
    await page.getByText('stranger', { exact: true }).waitFor()
    await page.getByRole('button', { name: 'Refuse' }).click()
    await heading(page, 'Login refused')
    expect(await ask(login['device_code'])).toMatchObject({ error: { details: { reason: 'access_denied' } } })
    await page.goto(`${dashboard.server.url}/device?again#${login['user_code']}`)
    await heading(page, 'Code not valid')
    await context.close()
  })

  it('is accessible in both themes, fits a phone, and cannot be framed', async () => {
    const { context, page } = await dashboard.signedIn({ viewport: { width: 390, height: 844 } })
    const login = await begin('a machine with a long name that somebody gave to it in a hurry')
    const response = await page.goto(login['verification_uri_complete'] ?? '')
    expect(response?.headers()['content-security-policy']).toContain("frame-ancestors 'none'")
    await page.getByRole('button', { name: 'Approve' }).waitFor()
    expect(await page.evaluate<number>('document.documentElement.scrollWidth - innerWidth')).toBe(0)
    // The themes differ only in their colours.
    for (const [colorScheme, rules] of [
      ['light', undefined],
      ['dark', ['color-contrast']],
    ] as const) {
      await page.emulateMedia({ colorScheme })
      expect(await violationsOf(page, rules)).toEqual([])
    }
    await context.close()
  })

  it('logs no error, and contacts no other server', () => {
    expect(dashboard.pageErrors).toEqual([])
  })
})
