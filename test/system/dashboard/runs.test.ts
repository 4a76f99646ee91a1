import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Client } from '../../../server/src/contract/client.ts'
import { chromiumPath, noChromium } from '../../harness/chromium.ts'
import { ownDashboard } from '../../harness/dashboard/of-run.ts'
import { openPage } from '../../harness/dashboard/pages.ts'
import type { Dashboard } from '../../harness/dashboard.ts'
import type { TestDatabase } from '../../harness/database.ts'
import { deployAndSettle } from '../../harness/deployments.ts'
import { serverProcess } from '../../harness/process.ts'
import { nodeApp, repository } from '../../harness/repository.ts'
import { problemsOfDialog } from './accessibility.ts'

if (chromiumPath === undefined) noChromium('schedules, one-off commands and terminals of an app')

const file = {
  'fairlead.json': JSON.stringify({
    cron: [{ name: 'of-file', schedule: '5 4 * * *', timezone: 'Europe/Berlin', command: ['node', 'report.js'] }],
  }),
}

const colourOfGreen = `[...document.querySelectorAll('.xterm-rows span')]
  .filter((span) => span.textContent === 'green').map((span) => getComputedStyle(span).color).at(-1)`

describe.skipIf(chromiumPath === undefined)('the pages of commands', () => {
  let database: TestDatabase
  let dashboard: Dashboard
  let path = ''
  let client: Client
  let params: { readonly project_id: string; readonly app_id: string }
  const cleanup = new AsyncDisposableStack()
  beforeAll(async () => {
    const own = cleanup.use(await ownDashboard())
    dashboard = own
    database = own.database
    const source = cleanup.use(await repository({ ...nodeApp('shop'), ...file }))
    client = (await dashboard.makeUser()).client
    const { id } = await client.projects.create({ body: { name: 'Shop' } })
    const { app_id } = await deployAndSettle(client, id, { name: 'shop', git_url: source.url })
    params = { project_id: id, app_id }
    path = `/projects/${id}/apps/${app_id}`
  })
  afterAll(() => cleanup.disposeAsync())

  const open = async (below: string, options?: Parameters<Dashboard['signedIn']>[0]) => {
    const { context, page } = await dashboard.signedIn(options)
    page.setDefaultTimeout(60_000)
    await openPage(page, `${dashboard.server.url}${path}${below}`)
    return { page, [Symbol.asyncDispose]: () => context.close() }
  }
  const begin = async (page: Page, command: string, kind = 'command') => {
    await page.getByRole('textbox', { name: 'Command' }).fill(command)
    await page.getByLabel('Kind').selectOption(kind)
    await page.getByRole('button', { name: 'Run', exact: true }).click()
  }

  it('create, change and delete schedules, with their next times and their history', async () => {
    await using opened = await open('/schedules')
    const { page } = opened
    const ofFile = page.getByRole('row', { name: /of-file/ })
    await ofFile.getByText('of fairlead.json').waitFor()
    expect(await ofFile.getByRole('button').count()).toBe(0)

    await page.getByRole('button', { name: 'New schedule' }).click()
    await page.getByLabel('Name').fill('nightly')
    await page.getByLabel('Times').fill('99 * * * *')
    await page.getByLabel('Time zone').fill('Europe/Berlin')
    await page
      .getByRole('textbox', { name: 'Command' })
      .fill(`node -e 'console.log("said " + process.argv[1]); process.exit(3)' "two words"`)
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText('has a field that is not in its range').waitFor()
    await page.getByLabel('Times').fill('5 4 1 1 *')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByRole('dialog').waitFor({ state: 'detached' })

    await page.getByRole('link', { name: 'nightly' }).click()
    await page.getByRole('heading', { level: 2, name: 'nightly' }).waitFor()
    await expect.poll(() => page.getByText(/^Jan 1, 20\d\d, 4:05/).count()).toBe(5)
    await database.query(
      `update schedules set next_at = date_trunc('milliseconds', clock_timestamp()) where name = 'nightly'`,
    )
    const run = page.getByRole('row', { name: /failed\s*exit status 3/ })
    await run.waitFor()
    await run.getByRole('button').click()
    await page.getByRole('region', { name: 'The end of its output' }).getByText('said two words').waitFor()
    await page.getByRole('button', { name: 'Close' }).click()

    await page.getByRole('button', { name: 'Actions for nightly' }).click()
    await page.getByRole('menuitem', { name: 'Change' }).click()
    await page.getByLabel('While the command still runs').selectOption('replace')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText('End the earlier one').waitFor()
    await page.getByRole('button', { name: 'Actions for nightly' }).click()
    await page.getByRole('menuitem', { name: 'Delete' }).click()
    await page.getByRole('button', { name: 'Delete schedule' }).click()
    await ofFile.waitFor()
    expect(await page.getByRole('row', { name: /nightly/ }).count()).toBe(0)

    await ofFile.getByRole('link').click()
    await page.getByText('can be changed there only').waitFor()
    expect(
      await page
        .getByRole('main')
        .getByRole('button', { name: /^Actions/ })
        .count(),
    ).toBe(0)
  })

  it('end a run of a schedule, after asking', async () => {
    const body = { name: 'endless', schedule: '5 4 1 1 *', command: ['sleep', '3600'] }
    const { id } = await client.schedules.create({ params, body })
    await database.query(`update schedules set next_at = date_trunc('milliseconds', clock_timestamp()) where id = $1`, [
      id,
    ])
    await using opened = await open(`/schedules/${id}`)
    const { page } = opened
    const row = page.getByRole('row', { name: /sleep 3600/ })
    await row.getByText('running').waitFor()
    await row.getByRole('button').click()
    await page.getByText('Its output is stored when it ends.').waitFor()
    await page.getByRole('button', { name: 'End command' }).click()
    await page.getByText('is killed some seconds later').waitFor()
    await page.getByRole('button', { name: 'End it now' }).click()
    await page.getByText('It was canceled.').waitFor()
    expect(await page.getByRole('button', { name: 'End command' }).count()).toBe(0)
    await page.getByRole('button', { name: 'Close' }).click()
    await row.getByText('canceled').waitFor()
    await client.schedules.delete({ params: { ...params, id } })
  })

  it('run a command, show its output and status, and keep it in the history', async () => {
    await using opened = await open('/run')
    const { page } = opened
    await begin(page, `node -e 'unclosed`)
    await page.getByText('A quote is not closed.').waitFor()
    await begin(page, `node -e 'console.log("out"); console.error("err"); process.exit(7)'`)
    await page.getByText('exit status 7').first().waitFor()
    await expect
      .poll(() => page.getByRole('region', { name: 'Output' }).innerText())
      .toMatch(/out[\s\S]*err|err[\s\S]*out/)
    const row = page.getByRole('row', { name: /a command\s*failed\s*exit status 7/ })
    await row.waitFor()
    await row.getByRole('button').click()
    const stored = page.getByRole('region', { name: 'The end of its output' })
    await stored.getByText('out').waitFor()
    await stored.getByText('err').waitFor()
  })

  it('open a terminal that fits its window, takes keys, and ends with its page', async () => {
    await using opened = await open('/run')
    const { page } = opened
    await begin(page, '', 'terminal')
    const terminal = page.getByRole('region', { name: 'Terminal' })
    await terminal.waitFor()
    await page.keyboard.type('stty size; echo $((6 * 7))-$TERM\n')
    await expect.poll(() => terminal.innerText()).toMatch(/\d+ \d+[\s\S]*42-xterm/)
    const size = /(\d+) (\d+)\s/.exec(await terminal.innerText())
    expect(Number(size?.[2])).toBeGreaterThan(80)
    // Colours beyond the palette need no style in the markup, which the page's policy forbids.
    await page.keyboard.type(`printf '\\033[38;2;10;200;30mgreen\\033[0m\\n'\n`)
    await expect.poll(() => page.evaluate(colourOfGreen)).toBe('rgb(10, 200, 30)')

    await page.keyboard.press('Shift+Escape')
    await expect.poll(() => page.evaluate<string>('document.activeElement.textContent')).toBe('End the command')
    await page.getByRole('link', { name: 'Processes' }).click()
    await page.getByText('The command ends when you leave this page.').waitFor()
    await page.getByRole('button', { name: 'Cancel' }).click()
    await terminal.click()
    await page.keyboard.type('exit 5\n')
    await page.getByText('exit status 5').first().waitFor()

    await begin(page, 'sleep 1000', 'terminal')
    await page.getByRole('button', { name: 'End the command' }).waitFor()
    await page.getByRole('row', { name: /sleep 1000 a terminal\s*running/ }).waitFor()
    await page.close({ runBeforeUnload: false })
    await expect
      .poll(
        async () => (await database.query(`select status, problem from runs where command = '["sleep", "1000"]'`))[0],
      )
      .toEqual({ status: 'canceled', problem: 'Its client has disconnected.' })
  })

  it('keep responding while a command prints without end', async () => {
    await using opened = await open('/run')
    const { page } = opened
    await begin(page, 'yes')
    await page.getByRole('region', { name: 'Output' }).getByText('y').first().waitFor()
    await page.getByRole('button', { name: 'End the command' }).click()
    await page.getByText('You have ended it.').waitFor()
  })

  it('cause no errors', () => {
    expect(dashboard.pageErrors).toEqual([])
  })

  it('report a lost connection, and continue when the server is back', async () => {
    await using opened = await open('/run', { viewport: { width: 390, height: 844 } })
    const { page } = opened
    await begin(page, 'sh', 'terminal')
    await page.getByRole('button', { name: 'Ctrl+C' }).waitFor()
    await page.getByRole('row', { name: /sh running/ }).waitFor()
    expect(await page.evaluate<number>('document.documentElement.scrollWidth - innerWidth')).toBe(0)
    expect(await problemsOfDialog(page)).toEqual([])
    await dashboard.server.kill()
    await page.getByText('The connection to the server was lost').waitFor()
    const port = new URL(dashboard.server.url).port
    await using _ = await serverProcess(dashboard.dataDirectory, { DATABASE_URL: database.url, FAIRLEAD_PORT: port })
    await page.getByRole('row', { name: /sh failed (?!exit)/ }).waitFor()
    await page.getByRole('button', { name: 'Run', exact: true }).waitFor()
  })
})
