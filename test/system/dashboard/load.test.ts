import type { Page, Request } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { chromiumPath, noChromium } from '../../harness/chromium.ts'
import { type SharedDashboard, sharedDashboard } from '../../harness/dashboard/of-run.ts'
import { openPage, pagesOf } from '../../harness/dashboard/pages.ts'
import { type Seeded, seed } from '../../harness/dashboard/seed.ts'
import { addCopies } from './many.ts'

if (chromiumPath === undefined) noChromium('the requests of pages with hundreds of projects')

const mostRequests = 6

describe.skipIf(chromiumPath === undefined)('the dashboard of 303 projects and 520 deployments', () => {
  let dashboard: SharedDashboard
  let seeded: Seeded
  beforeAll(async () => {
    dashboard = await sharedDashboard()
    seeded = await seed(dashboard.client, dashboard.server)
    await fill(dashboard, seeded)
  })
  afterAll(async () => {
    await seeded?.[Symbol.asyncDispose]()
    await dashboard?.[Symbol.asyncDispose]()
  })

  const url = (path: string) => dashboard.server.url + path

  it('needs at most 6 requests for any page, and asks for nothing row by row afterwards', async () => {
    const { context, page } = await dashboard.signedIn()
    page.setDefaultTimeout(60_000)
    const requests = watchRequests(page)
    await page.clock.install()
    const found: string[] = []
    for (const [name, path] of Object.entries(pagesOf(seeded))) {
      // A page asks again for what a network that came or went took away, so that its requests are counted at another try.
      do {
        requests.begin()
        await openPage(page, url(path))
        await requests.answered()
      } while (requests.wereLost())
      if (requests.made.length > mostRequests) found.push(`${name}: ${requests.made.join(' ')}`)
      // The page asks again after as long as pages that show something quiet wait.
      requests.begin()
      await page.clock.runFor(10_100)
      await requests.answered()
      const perResource = Map.groupBy(requests.made, (request) => request.replace(/\w+_\w{26}/g, ':id'))
      for (const [route, asked] of perResource) {
        if (new Set(asked).size > 1) found.push(`${name}, again: ${new Set(asked).size} × ${route}`)
      }
    }
    expect(found).toEqual([])
    await context.close()
  })

  it('shows heading and lines in place of the content before its scripts are loaded', async () => {
    const { context, page } = await dashboard.signedIn()
    const held = Promise.withResolvers<void>()
    await page.route('**/assets/*.js', async (route) => {
      await held.promise
      await route.continue()
    })
    await page.goto(url('/projects'), { waitUntil: 'commit' })
    await page.getByRole('heading', { name: 'Projects', level: 1 }).waitFor()
    await page.getByText('Loading the page…').waitFor()
    expect(await page.locator('main .animate-pulse').isVisible()).toBe(true)
    held.resolve()
    await page.getByRole('row', { name: /^Project 300 / }).waitFor()
    expect(await page.getByRole('heading', { level: 1 }).count()).toBe(1)
    await context.close()
  })

  it('loads a style again that did not arrive, and keeps the page', async () => {
    const { context, page } = await dashboard.signedIn()
    page.setDefaultTimeout(60_000)
    await page.route('**/assets/index-*.css', (route) => route.abort(), { times: 2 })
    await page.goto(url('/projects'))
    await page.getByRole('row', { name: /^Project 300 / }).waitFor()
    await page.evaluate('globalThis.kept = true')
    await expect.poll(() => page.evaluate('getComputedStyle(document.documentElement).fontSize')).toBe('14px')
    expect(await page.evaluate('globalThis.kept')).toBe(true)
    await context.close()
  })

  it('loads a page again when none of its scripts arrived', async () => {
    const { context, page } = await dashboard.signedIn()
    page.setDefaultTimeout(60_000)
    let loads = 0
    await page.route('**/projects', (route) => {
      if (route.request().isNavigationRequest()) loads += 1
      return route.continue()
    })
    await page.route('**/*.js', (route) => (loads === 1 ? route.abort() : route.continue()))
    await page.goto(url('/projects'))
    await page.getByRole('row', { name: /^Project 300 / }).waitFor()
    expect(loads).toBe(2)
    await context.close()
  })

  it('saw no page with errors', () => {
    expect(dashboard.pageErrors.filter(({ text }) => !text.includes('net::ERR_'))).toEqual([])
  })
})

/** Fills the account up to 303 projects, and a project of it up to 520 deployments. */
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

/** Notes the requests to the API, each by its path without the query. Streams of logs are not awaited. */
function watchRequests(page: Page) {
  const made: string[] = []
  const open = new Set<Request>()
  page.on('request', (request) => {
    const { pathname } = new URL(request.url())
    if (!pathname.startsWith('/dashboard/api/')) return
    made.push(pathname.slice('/dashboard/api'.length))
    if (!pathname.endsWith('/logs')) open.add(request)
  })
  let lost = false
  page.on('requestfinished', (request) => void open.delete(request))
  page.on('requestfailed', (request) => {
    open.delete(request)
    lost ||= request.failure()?.errorText === 'net::ERR_NETWORK_CHANGED'
  })
  const begin = () => {
    made.length = 0
    lost = false
  }
  const answered = () => expect.poll(() => open.size, { timeout: 60_000 }).toBe(0)
  return { made, begin, answered, wereLost: () => lost }
}
