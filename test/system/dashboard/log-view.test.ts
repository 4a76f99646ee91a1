import type { Page } from 'playwright-core'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { chromiumPath, noChromium } from '../../harness/chromium.ts'
import { type SharedDashboard, sharedDashboard } from '../../harness/dashboard/of-run.ts'
import { openPage } from '../../harness/dashboard/pages.ts'
import { deployAndSettle } from '../../harness/deployments.ts'
import { type Repository, repository } from '../../harness/repository.ts'

if (chromiumPath === undefined) noChromium('the log of an app')

const long = `wide ${'0123456789'.repeat(60)} end`
const app = {
  'package.json': JSON.stringify({
    name: 'shop',
    scripts: { build: 'node build.js', start: 'node server.js' },
  }),
  'build.js': "console.log('the build says hello'); console.log('WARN an old module')",
  'server.js': `for (let n = 1; n <= 300; n += 1) console.log('item ' + n)
console.log('\\x1b[32mopen\\x1b[0m for business')
console.log('TypeError: no basket\\n    at checkout (server.js:1:1)')
console.log(${JSON.stringify(long)})
require('node:http').createServer((request, response) => {
  console.log('asked for ' + request.url)
  response.end()
}).listen(process.env.PORT)`,
}

describe.skipIf(chromiumPath === undefined)('the log of an app', () => {
  let dashboard: SharedDashboard
  let source: Repository
  let url: string
  let page: Page
  beforeAll(async () => {
    dashboard = await sharedDashboard()
    source = await repository(app)
    const { client } = dashboard
    const { id } = await client.projects.create({ body: { name: 'Shop' } })
    const deployment = await deployAndSettle(client, id, { name: 'shop', git_url: source.url })
    url = `${dashboard.server.url}/projects/${id}/deployments/${deployment.id}`
    page = (await dashboard.signedIn()).page
    page.setDefaultTimeout(60_000)
  })
  afterAll(async () => {
    await dashboard?.[Symbol.asyncDispose]()
    await source?.[Symbol.asyncDispose]()
  })
  beforeEach(async () => {
    await openPage(page, url)
    await line('no basket').waitFor()
  })

  const lines = () => page.getByLabel('Lines of the log')
  const line = (text: string) => lines().getByText(text)
  const rows = () =>
    page.evaluate<number>(`document.querySelector('[aria-label="Lines of the log"] > div').clientHeight / 20`)
  const scrollTop = () => page.evaluate<number>(`document.querySelector('[aria-label="Lines of the log"]').scrollTop`)

  it('has a tab for the build and a tab for the app, which arrow keys change', async () => {
    await page.getByRole('tab', { name: 'Build' }).click()
    await line('the build says hello').waitFor()
    expect(await line('no basket').count()).toBe(0)
    await page.keyboard.press('ArrowRight')
    await line('no basket').waitFor()
    expect(await page.getByRole('tab', { name: 'Runtime' }).getAttribute('aria-selected')).toBe('true')
    expect(await line('the build says hello').count()).toBe(0)
  })

  it('shows errors with their traces, optionally warnings, and their number', async () => {
    await page.getByLabel('Level').selectOption('error')
    await page.getByRole('status').filter({ hasText: '2 lines' }).waitFor()
    await line('at checkout').waitFor()
    await page.getByLabel('Level').selectOption('warning')
    await line('an old module').waitFor()
    expect(await line('open for business').count()).toBe(0)
  })

  it('marks and counts matches of a search, and shows a match among its neighbours', async () => {
    await page.getByLabel('Search the log').fill('ITEM 2')
    await page.getByRole('status').filter({ hasText: '111 lines' }).waitFor()
    await page.getByLabel('Search the log').fill('item 200')
    await page.getByRole('status').filter({ hasText: '1 line' }).waitFor()
    expect(await lines().locator('mark').allTextContents()).toEqual(['item 200'])
    await page.getByRole('link', { name: /^Link to line/ }).focus()
    await page.keyboard.press('Enter')
    await line('item 201').waitFor()
    expect(await page.getByLabel('Search the log').inputValue()).toBe('')
    expect(await lines().locator('[aria-current="location"]').textContent()).toContain('item 200')

    // The address leads another reader to the same line.
    const address = page.url()
    expect(address).toMatch(/#runtime-\d+$/)
    await page.goto('about:blank')
    await page.goto(address)
    const linked = lines().locator('[aria-current="location"]')
    await linked.waitFor()
    expect(await linked.textContent()).toContain('item 200')
    expect(await linked.isVisible()).toBe(true)
    await page.getByRole('button', { name: 'Follow' }).waitFor()
    await fetch(
      await page
        .getByRole('link', { name: /^http/ })
        .textContent()
        .then((text) => `${text}/more`),
    )
    await page.getByRole('button', { name: 'Follow' }).click()
    await line('asked for /more').waitFor()
  })

  it('wraps long lines so that they can be read without scrolling aside', async () => {
    const overflows = () =>
      page.evaluate<boolean>(`(() => { const box = document.querySelector('[aria-label="Lines of the log"]')
  return box.scrollWidth > box.clientWidth })()`)
    expect(await overflows()).toBe(true)
    const before = await rows()
    await page.getByRole('button', { name: 'Wrap' }).click()
    await expect.poll(overflows).toBe(false)
    await expect.poll(rows).toBeGreaterThan(before + 3)
    await expect.poll(scrollTop).toBeGreaterThan(100)
    // No row covers the next one.
    const covered = () =>
      page.evaluate<number>(`(() => {
  const rows = [...document.querySelectorAll('[aria-label="Lines of the log"] > div > div')].map((row) => row.getBoundingClientRect())
  return rows.filter((row, index) => index > 0 && row.top < rows[index - 1].bottom - 1).length
})()`)
    await expect.poll(covered).toBe(0)
  })

  it('takes the height of the window on request', async () => {
    const height = async () => (await lines().boundingBox())?.height ?? 0
    const before = await height()
    const button = page.getByRole('button', { name: 'Full height' })
    await button.click()
    await expect.poll(height).toBeGreaterThan(before + 100)
    expect(await button.isVisible()).toBe(true)
    await button.click()
    await expect.poll(height).toBe(before)
  })

  it('covers all releases of the app, with a mark where each begins, and shows a new release live', async () => {
    const mark = (hash: string) => lines().getByRole('link', { name: `Release ${hash.slice(0, 12)}` })
    await page.getByRole('link', { name: 'shop', exact: true }).click()
    await page.getByRole('link', { name: 'Logs' }).click()
    await line('no basket').waitFor()
    const { client } = dashboard
    const [projectId = ''] = /proj_\w+/.exec(url) ?? []
    const commit = await source.commit({ 'build.js': "console.log('the second build')" })
    const second = await deployAndSettle(client, projectId, { name: 'shop', git_url: source.url })
    await fetch(`${second.url}/of-the-second`)
    await line('asked for /of-the-second').waitFor()
    await page.reload()
    await line('asked for /of-the-second').waitFor()
    await page.getByRole('tab', { name: 'Build' }).click()
    await line('the second build').waitFor()
    await mark(commit).waitFor()
    await lines().getByText('the build says hello').waitFor()
    expect(
      await lines()
        .getByRole('link', { name: /^Release/ })
        .count(),
    ).toBe(2)
    await mark(commit).click()
    await page.getByRole('heading', { name: 'shop', level: 1 }).waitFor()
    expect(page.url()).toContain(second.id)
  })

  it('had no page with errors', () => {
    expect(dashboard.pageErrors).toEqual([])
  })
})
