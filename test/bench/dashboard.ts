import type { Client } from '@fairlead/server/client'
import type { Page } from 'playwright-core'
import { type Dashboard, openDashboard } from '../harness/dashboard.ts'
import { inTime } from './deadline.ts'
import { benchLogPage } from './log-page.ts'
import type { Bench, BenchResult, Run } from './row.ts'
import { median } from './statistics.ts'

const full = { projects: 303, turns: 5, slowTurns: 3 }
const brief: typeof full = { projects: 2, turns: 1, slowTurns: 1 }
const aim = { blockingMs: 150, headingMs: 3_000 }
/** A connection of a phone. */
const slow = { offline: false, latency: 400, downloadThroughput: 50_000, uploadThroughput: 50_000 }

/** Measures the page of 303 projects in Chromium, over a fast and a slow connection; then a log of 100,000 lines. */
export const benchDashboard: Bench = async (run) => {
  await using dashboard = await inTime('dashboard', run.signal, openDashboard())
  const { client } = await inTime('user', run.signal, dashboard.makeUser())
  const loads = await benchLoads(dashboard, client, run)
  const log = await benchLogPage(dashboard, client, run)
  return { rows: [...loads.rows, ...log.rows], notes: [...loads.notes, ...log.notes] }
}

async function benchLoads(dashboard: Dashboard, client: Client, { signal, short }: Run): Promise<BenchResult> {
  const { projects, turns, slowTurns } = short ? brief : full
  for (let count = 0; count < projects; count += 1) {
    signal.throwIfAborted()
    await client.projects.create({ body: { name: `Project ${count + 1}` } })
  }
  const blocking: number[] = []
  const loads: { skeleton: number; heading: number; rows: number }[] = []
  for (let turn = 0; turn < turns; turn += 1) {
    signal.throwIfAborted()
    blocking.push(await inTime('page of projects', signal, blockingOf(dashboard)))
    if (turn < slowTurns) loads.push(await inTime('page over a slow connection', signal, slowLoad(dashboard)))
  }
  const of = (name: keyof (typeof loads)[number]) => Math.round(median(loads.map((load) => load[name])))
  return {
    rows: [
      {
        name: `dashboard: blocking time of Projects with ${projects} of them`,
        measured: `${Math.round(median(blocking))} ms`,
        aim: { text: `≤ ${aim.blockingMs} ms`, met: median(blocking) <= aim.blockingMs },
      },
      {
        name: 'dashboard: heading at 400 ms latency and 50 kB/s',
        measured: `${of('heading')} ms`,
        aim: { text: `≤ ${aim.headingMs} ms`, met: of('heading') <= aim.headingMs },
      },
    ],
    notes: [
      `Blocking times: ${blocking.map(Math.round).join(', ')} ms. Over the slow connection grey lines are shown after ` +
        `${of('skeleton')} ms and all projects after ${of('rows')} ms.`,
    ],
  }
}

/** The total time of long tasks beyond 50 ms each, until all rows are shown. */
async function blockingOf(dashboard: Dashboard): Promise<number> {
  const { context, page } = await dashboard.signedIn()
  await page.addInitScript(`window.blocked = 0
new PerformanceObserver((list) => { for (const { duration } of list.getEntries()) blocked += duration - 50 })
  .observe({ type: 'longtask', buffered: true })`)
  await page.goto(`${dashboard.server.url}/projects`)
  await rowOf(page, 1).waitFor()
  await page.waitForTimeout(500)
  const blocked = await page.evaluate<number>('blocked')
  await context.close()
  return blocked
}

async function slowLoad(dashboard: Dashboard): Promise<{ skeleton: number; heading: number; rows: number }> {
  const { context, page } = await dashboard.signedIn()
  const session = await context.newCDPSession(page)
  await session.send('Network.enable')
  await session.send('Network.emulateNetworkConditions', slow)
  const began = performance.now()
  const after = async (shown: Promise<unknown>) => {
    await shown
    return performance.now() - began
  }
  const [, skeleton, heading, rows] = await Promise.all([
    page.goto(`${dashboard.server.url}/projects`, { waitUntil: 'commit' }),
    after(page.locator('main .animate-pulse').first().waitFor()),
    after(page.getByRole('heading', { name: 'Projects', level: 1 }).waitFor()),
    after(rowOf(page, 1).waitFor()),
  ])
  await context.close()
  return { skeleton, heading, rows }
}

const rowOf = (page: Page, number: number) => page.getByRole('row', { name: new RegExp(`^Project ${number} `) })
