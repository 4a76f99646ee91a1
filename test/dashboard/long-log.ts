import type { Page } from 'playwright-core'
import type { Dashboard } from '../harness/dashboard.ts'
import { deployAndSettle } from '../harness/deployments.ts'
import { repository } from '../harness/repository.ts'

export const longLog = 100_000
export const rowText = (number: number): string => `row ${number} of a long log`

/** Writes 100,000 lines as it starts, and one more for each path that it is asked for. */
const talkative = {
  'package.json': JSON.stringify({ name: 'talkative', scripts: { start: 'node server.js' } }),
  'server.js': `for (let n = 1; n <= ${longLog}; n += 1) console.log('row ' + n + ' of a long log')
require('node:http').createServer((request, response) => {
  if (request.url !== '/') console.log('asked for ' + request.url)
  response.end()
}).listen(process.env.PORT)
`,
}

/** An app whose log has 100,000 lines, of the first user of this server. */
export async function deployTalkative(dashboard: Dashboard): Promise<{ url: string; path: string }> {
  await using source = await repository(talkative)
  const { client } = await dashboard.makeUser()
  const project = await client.projects.create({ body: { name: 'Talk' } })
  const made = await deployAndSettle(client, project.id, { name: 'talkative', git_url: source.url })
  if (made.status !== 'running') throw new Error(`the app is ${made.status}: ${made.failure?.message}`)
  return { url: made.url, path: `/projects/${project.id}/deployments/${made.id}` }
}

/** Notes every task of the page that takes 50 ms or longer. To be called before the page is opened. */
export async function watchTasks(page: Page): Promise<{ longestMs(): Promise<number> }> {
  await page.addInitScript(`window.longTasks = []
new PerformanceObserver((list) => longTasks.push(...list.getEntries().map(({ duration }) => duration)))
  .observe({ type: 'longtask', buffered: true })`)
  return { longestMs: () => page.evaluate<number>('Math.max(0, ...longTasks)') }
}

const lines = `document.querySelector('[aria-label="Lines of the log"]')`

/** How many lines of the log are in the page's document. */
export const rowsDrawn = (page: Page): Promise<number> =>
  page.evaluate<number>(`${lines}.firstElementChild.children.length`)

/** How many lines the log has room for. */
export const rowsHeld = (page: Page): Promise<number> =>
  page.evaluate<number>(`Math.round(${lines}.firstElementChild.clientHeight / 20)`)

export const scrollTo = (page: Page, where: 'top' | 'end'): Promise<void> =>
  page.evaluate(`${lines}.scrollTop = ${where === 'top' ? 0 : `${lines}.scrollHeight`}`)

/** Scrolls from the top to the end, picture by picture: the most lines that were drawn, and how often the middle was empty. */
export function scrollThrough(page: Page, steps: number): Promise<{ mostRows: number; gaps: number }> {
  return page.evaluate(`(async () => {
    const box = ${lines}
    const picture = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))
    const { left, top, width, height } = box.getBoundingClientRect()
    let mostRows = 0
    let gaps = 0
    for (let step = 0; step <= ${steps}; step += 1) {
      box.scrollTop = ((box.scrollHeight - box.clientHeight) * step) / ${steps}
      await picture()
      await picture()
      mostRows = Math.max(mostRows, box.firstElementChild.children.length)
      const row = document.elementFromPoint(left + 40, top + height / 2)
      if (!row?.closest('.absolute')) gaps += 1
    }
    return { mostRows, gaps }
  })()`)
}

/** How long the page stands still when a quarter of the lines is put into the document at once. */
export function quarterAtOnceMs(page: Page): Promise<number> {
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
