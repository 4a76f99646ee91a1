import type { Client } from '@fairlead/server/client'
import type { Page } from 'playwright-core'
import { deployAndSettle } from '../deployments.ts'
import { repository } from '../repository.ts'

export const longLog = 100_000
export const rowText = (number: number): string => `row ${number} of a long log`

/** An app that writes 100,000 lines at its start, and one more line for each request to a path other than `/`. */
const loggingApp = {
  'package.json': JSON.stringify({ name: 'long-log', scripts: { start: 'node server.js' } }),
  'server.js': `const rows = []
for (let n = 1; n <= ${longLog}; n += 1) rows.push('row ' + n + ' of a long log')
console.log(rows.join('\\n'))
require('node:http').createServer((request, response) => {
  if (request.url !== '/') console.log('request for ' + request.url)
  response.end()
}).listen(process.env.PORT)
`,
}

/** Deploys an app whose log has 100,000 lines. */
export async function deployAppWithLongLog(client: Client): Promise<{ url: string; path: string }> {
  await using source = await repository(loggingApp)
  const project = await client.projects.create({ body: { name: 'Logs' } })
  const deployment = await deployAndSettle(client, project.id, { name: 'long-log', git_url: source.url })
  if (deployment.status !== 'running')
    throw new Error(`the app is ${deployment.status}: ${deployment.failure?.message}`)
  return { url: deployment.url, path: `/projects/${project.id}/deployments/${deployment.id}` }
}

/** Records the page's tasks of 50 ms or longer. Call it before the page opens. */
export async function watchTasks(page: Page): Promise<{ longestMs(): Promise<number> }> {
  await page.addInitScript(`window.longTasks = []
new PerformanceObserver((list) => longTasks.push(...list.getEntries().map(({ duration }) => duration)))
  .observe({ type: 'longtask', buffered: true })`)
  return { longestMs: () => page.evaluate<number>('Math.max(0, ...longTasks)') }
}

const lines = `document.querySelector('[aria-label="Lines of the log"]')`

export const countDrawnRows = (page: Page): Promise<number> =>
  page.evaluate<number>(`${lines}.firstElementChild.children.length`)

/** Returns the number of rows that the scroll height allows for, drawn or not. */
export const countRows = (page: Page): Promise<number> =>
  page.evaluate<number>(`Math.round(${lines}.firstElementChild.clientHeight / 20)`)

export const scrollTo = (page: Page, where: 'top' | 'end'): Promise<void> =>
  page.evaluate(`${lines}.scrollTop = ${where === 'top' ? 0 : `${lines}.scrollHeight`}`)

/**
 * Scrolls from the top to the end in steps. Returns the largest number of drawn rows, and how often the middle of the
 * box was empty.
 */
export function scrollThrough(page: Page, steps: number): Promise<{ maxRows: number; gaps: number }> {
  return page.evaluate(`(async () => {
    const box = ${lines}
    // The middle of the box must be in the window.
    box.scrollIntoView({ block: 'center' })
    const nextFrame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))
    const { left, top, width, height } = box.getBoundingClientRect()
    let maxRows = 0
    let gaps = 0
    for (let step = 0; step <= ${steps}; step += 1) {
      box.scrollTop = ((box.scrollHeight - box.clientHeight) * step) / ${steps}
      await nextFrame()
      await nextFrame()
      maxRows = Math.max(maxRows, box.firstElementChild.children.length)
      const row = document.elementFromPoint(left + 40, top + height / 2)
      if (!row?.closest('.absolute')) gaps += 1
    }
    return { maxRows, gaps }
  })()`)
}

/** Measures how long the page takes to render a quarter of the lines at once, without virtual scrolling. */
export function renderQuarterMs(page: Page): Promise<number> {
  return page.evaluate<number>(`(() => {
    const box = ${lines}.cloneNode(false)
    const begin = performance.now()
    for (let n = 1; n <= ${longLog / 4}; n += 1) {
      const row = document.createElement('div')
      row.className = 'h-[20px] px-4 whitespace-pre'
      row.textContent = 'row ' + n + ' of a long log'
      box.append(row)
    }
    document.body.append(box)
    box.getBoundingClientRect()
    box.scrollTop = box.scrollHeight
    const end = performance.now()
    box.remove()
    return end - begin
  })()`)
}
