import type { Client } from '@fairlead/server/client'
import {
  countRows,
  deployAppWithLongLog,
  longLog,
  renderQuarterMs,
  rowText,
  scrollThrough,
  watchTasks,
} from '../harness/dashboard/long-log.ts'
import type { Dashboard } from '../harness/dashboard.ts'
import { inTime } from './deadline.ts'
import type { BenchResult, Run } from './row.ts'

const name = 'dashboard: longest task with a log of 100,000 lines'
const full = { steps: 200 }
const brief: typeof full = { steps: 10 }
/** Chromium reports tasks of at least this duration. */
const reportedFromMs = 50

/** Measures a log of 100,000 lines in Chromium: loading it, scrolling through it, and searching its first and last line. */
export async function benchLogPage(dashboard: Dashboard, client: Client, { signal, short }: Run): Promise<BenchResult> {
  const { steps } = short ? brief : full
  const { path } = await inTime('app with a long log', signal, deployAppWithLongLog(client))
  signal.throwIfAborted()
  const { page } = await dashboard.signedIn()
  page.setDefaultTimeout(120_000)
  const tasks = await watchTasks(page)
  const lines = page.getByLabel('Lines of the log')
  await page.goto(dashboard.server.url + path)
  await lines.getByText(rowText(longLog), { exact: true }).waitFor()
  signal.throwIfAborted()
  const { maxRows } = await inTime('end of the log', signal, scrollThrough(page, steps))
  for (const number of [1, longLog]) {
    await page.getByLabel('Search the log').fill(rowText(number))
    await lines.getByText(rowText(number), { exact: true }).waitFor()
  }
  await page.getByLabel('Search the log').fill('')
  const held = await countRows(page)
  const longest = await tasks.longestMs()
  const quarter = Math.round(await renderQuarterMs(page))
  return {
    rows: [{ name, measured: longest === 0 ? `below ${reportedFromMs} ms` : `${Math.round(longest)} ms` }],
    notes: [
      `${held} lines held, ${maxRows} drawn at most while scrolling in ${steps} steps. ` +
        `A quarter of them in the document at once takes the same page ${quarter} ms.`,
    ],
  }
}
