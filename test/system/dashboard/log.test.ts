import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { chromiumPath, noChromium } from '../../harness/chromium.ts'
import {
  countDrawnRows,
  countRows,
  deployAppWithLongLog,
  longLog,
  renderQuarterMs,
  rowText,
  scrollThrough,
  scrollTo,
  watchTasks,
} from '../../harness/dashboard/long-log.ts'
import { type SharedDashboard, sharedDashboard } from '../../harness/dashboard/of-run.ts'

if (chromiumPath === undefined) noChromium('a log of 100,000 lines')

/** A few times the number of visible rows. */
const maxDrawn = 150

describe.skipIf(chromiumPath === undefined)('a log of 100,000 lines', () => {
  let dashboard: SharedDashboard
  let app: Awaited<ReturnType<typeof deployAppWithLongLog>>
  beforeAll(async () => {
    dashboard = await sharedDashboard()
    app = await deployAppWithLongLog(dashboard.client)
  })
  afterAll(() => dashboard?.[Symbol.asyncDispose]())

  it('is scrolled, searched and followed with few rows in the document and no long task', async () => {
    const { context, page } = await dashboard.signedIn()
    page.setDefaultTimeout(60_000)
    const tasks = await watchTasks(page)
    await page.goto(dashboard.server.url + app.path)
    const line = (text: string) => page.getByLabel('Lines of the log').getByText(text, { exact: true })
    await line(rowText(longLog)).waitFor()
    await expect.poll(() => countRows(page)).toBe(longLog)
    expect(await countDrawnRows(page)).toBeLessThan(maxDrawn)

    const scrolled = await scrollThrough(page, 200)
    expect(scrolled.maxRows).toBeLessThan(maxDrawn)
    expect(scrolled.gaps).toBe(0)
    await scrollTo(page, 'top')
    await line(rowText(1)).waitFor()
    expect(await page.getByRole('button', { name: 'Follow' }).isVisible()).toBe(true)

    const search = page.getByLabel('Search the log')
    for (const number of [1, longLog]) {
      await search.fill(rowText(number))
      await expect.poll(() => countRows(page)).toBe(1)
      await line(rowText(number)).waitFor()
    }
    await search.fill('LONG log')
    await expect.poll(() => countRows(page)).toBe(longLog)
    await search.fill('')

    await page.evaluate('document.activeElement.blur()')
    await scrollTo(page, 'end')
    await page.getByRole('button', { name: 'Pause' }).waitFor()
    await fetch(`${app.url}/one-more`)
    await line('request for /one-more').waitFor()
    // The page keeps the newest 100,000 lines.
    expect(await countRows(page)).toBe(longLog)
    expect(await countDrawnRows(page)).toBeLessThan(maxDrawn)

    const longest = await tasks.longestMs()
    // The longest of several, because `longest` is the worst of many tasks on a busy machine.
    const quarters: number[] = []
    for (let turn = 0; turn < 5; turn++) quarters.push(await renderQuarterMs(page))
    expect(longest).toBeLessThan(Math.max(...quarters))
    await context.close()
    expect(dashboard.pageErrors).toEqual([])
  })
})
