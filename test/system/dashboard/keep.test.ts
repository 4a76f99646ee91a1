import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { chromiumPath, noChromium } from '../../harness/chromium.ts'
import { type SharedDashboard, sharedDashboard } from '../../harness/dashboard/of-run.ts'
import { openPage } from '../../harness/dashboard/pages.ts'
import { freePort } from '../../harness/ports.ts'
import { relay } from '../../harness/relay.ts'

if (chromiumPath === undefined) noChromium('what was typed, the focus, and a server that is away')

describe.skipIf(chromiumPath === undefined)('the dashboard', () => {
  let dashboard: SharedDashboard
  let projectId: string
  beforeAll(async () => {
    dashboard = await sharedDashboard()
    projectId = (await dashboard.client.projects.create({ body: { name: 'Shop' } })).id
  })
  afterAll(() => dashboard?.[Symbol.asyncDispose]())

  const url = (path: string) => dashboard.server.url + path
  const focused = (page: Page) => page.evaluate<string>('document.activeElement.textContent')

  it('keeps typed text in a dialog on a click beside it and on Escape, and asks', async () => {
    const { context, page } = await dashboard.signedIn()
    await openPage(page, url('/projects'))
    await page.getByRole('button', { name: 'New project' }).click()
    await page.mouse.click(5, 5)
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    await page.getByRole('button', { name: 'New project' }).click()
    await page.getByLabel('Name').fill('Typed')
    await page.mouse.click(5, 5)
    await page.getByText('Discard what you have typed?').waitFor()
    await page.getByRole('button', { name: 'Keep it' }).click()
    await page.keyboard.press('Escape')
    expect(await page.getByLabel('Name').inputValue()).toBe('Typed')
    await page.getByRole('button', { name: 'Discard' }).click()
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    await expect.poll(() => focused(page)).toBe('New project')
    await context.close()
  })

  it('keeps typed text when the session ends, and continues after a sign-in', async () => {
    const { context, page, api } = await dashboard.signedIn()
    await openPage(page, url('/projects'))
    await page.getByText(dashboard.user.email).waitFor()
    await page.getByRole('button', { name: 'New project' }).click()
    await page.getByLabel('Name').fill('Typed before')
    await api.dashboard.session.delete()
    const dialog = page.getByRole('dialog', { name: 'Your session has ended' })
    await dialog.waitFor()
    await dialog.getByLabel('Password').fill(dashboard.user.password)
    await dialog.getByRole('button', { name: 'Sign in' }).click()
    await dialog.waitFor({ state: 'detached' })
    expect(await page.getByLabel('Name').inputValue()).toBe('Typed before')
    await page.getByRole('button', { name: 'Create project' }).click()
    await page.getByRole('heading', { name: 'Typed before' }).waitFor()
    await context.close()
  })

  it('says once that the server is unavailable, and resumes by itself, with the requested page', async () => {
    const { hostname, port } = new URL(dashboard.server.url)
    await using connection = await relay(
      { host: hostname, port: Number(port) },
      { host: hostname, port: await freePort() },
    )
    const origin = `http://${hostname}:${connection.port}`
    const { context, page } = await dashboard.signedIn({}, origin)
    await openPage(page, `${origin}/projects/${projectId}`)
    const databases = page.getByRole('link', { name: 'Databases' })
    await databases.waitFor()
    await connection.cut()
    await page.getByText('The server cannot be reached.').waitFor()
    await databases.click()
    expect(await page.getByRole('alert').count()).toBe(0)
    await connection.restore()
    await page.getByText('No database yet').waitFor({ timeout: 60_000 })
    await page.getByText('The server cannot be reached.').waitFor({ state: 'detached' })
    await context.close()
  })

  it('moves the focus to the heading of a page whose link is gone', async () => {
    const { context, page } = await dashboard.signedIn()
    await openPage(page, url('/projects'))
    await page.getByRole('link', { name: 'Shop' }).focus()
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'Shop' }).waitFor()
    await expect.poll(() => focused(page)).toBe('Shop')
    await context.close()
  })

  it('closes the menu of a phone on Escape, and has fields that phones do not zoom into', async () => {
    const { context, page } = await dashboard.signedIn({ viewport: { width: 390, height: 844 } })
    await openPage(page, url('/projects'))
    const menu = page.getByRole('button', { name: 'Menu' })
    await menu.click()
    await page.getByRole('link', { name: 'Webhooks' }).focus()
    await page.keyboard.press('Escape')
    await page.getByRole('link', { name: 'Webhooks' }).waitFor({ state: 'hidden' })
    await expect.poll(() => page.evaluate("document.activeElement.getAttribute('aria-label')")).toBe('Menu')
    await page.getByRole('button', { name: 'New project' }).click()
    await page.getByLabel('Name').focus()
    expect(await page.evaluate('getComputedStyle(document.activeElement).fontSize')).toBe('16px')
    await context.close()
  })

  it('is dark from its first frame in the dark theme', async () => {
    const { context, page } = await dashboard.signedIn({ colorScheme: 'light' })
    await openPage(page, url('/projects'))
    await page.getByTitle('Dark').click()
    const held = Promise.withResolvers<void>()
    await page.route('**/assets/*.js', async (route) => {
      await held.promise
      await route.continue()
    })
    await page.goto(url('/projects'), { waitUntil: 'commit' })
    const canvas = () => page.evaluate<string>('getComputedStyle(document.documentElement).backgroundColor')
    await expect.poll(canvas).not.toBe('rgba(0, 0, 0, 0)')
    expect(await canvas()).toBe('rgb(14, 19, 22)')
    held.resolve()
    await page.getByRole('heading', { name: 'Projects' }).waitFor()
    await context.close()
  })

  it('shows a complete upload without alarm', async () => {
    const { context, page } = await dashboard.signedIn()
    // The browser has sent everything, and the server has not answered yet.
    await page.addInitScript(`XMLHttpRequest.prototype.send = function () {
  this.upload.onprogress(new ProgressEvent('progress', { loaded: 5, total: 5 }))
}`)
    await openPage(page, url(`/projects/${projectId}/storage`))
    const file = { name: 'note.txt', mimeType: 'text/plain', buffer: Buffer.from('hello') }
    await page.getByLabel('Drop files here, or choose them').setInputFiles(file)
    await page.locator('span', { hasText: '100 %' }).waitFor()
    expect(await page.getByRole('progressbar', { name: 'note.txt' }).count()).toBe(1)
    expect(await page.locator('.fill-bad').count()).toBe(0)
    await context.close()
  })

  it('has examples in the API reference with the dashboard’s address', async () => {
    const { context, page } = await dashboard.signedIn()
    await page.goto(url('/docs'))
    const text = await page.textContent('body')
    expect(text).toContain(`API=${dashboard.server.url}/v1`)
    expect(text).not.toContain('fairlead.invalid')
    await context.close()
  })

  it('had no page with errors', () => {
    expect(dashboard.pageErrors.filter(({ text }) => !text.includes('net::ERR_'))).toEqual([])
  })
})
