import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { CompiledQuery } from 'kysely'
import { pino } from 'pino'
import type { BrowserContextOptions, Page } from 'playwright-core'
import { administer } from '../../../server/src/administration.ts'
import { loadConfig } from '../../../server/src/platform/config.ts'
import { openPage, pagesOf } from '../../harness/dashboard/pages.ts'
import { seed } from '../../harness/dashboard/seed.ts'
import { openDashboard } from '../../harness/dashboard.ts'
import { namedApps, seedDomains } from './seed-domains.ts'

/** `npm run screenshots`: takes the guides' pictures from a real server with data on every page. */
const directory = join(import.meta.dirname, '../../../docs/images')
const desktop = { colorScheme: 'light', viewport: { width: 1120, height: 700 } } as const
const phone = { colorScheme: 'light', viewport: { width: 390, height: 780 } } as const

interface Picture {
  readonly file: string
  /** The name of the page, as in `pagesOf`. */
  readonly name: string
  readonly options?: BrowserContextOptions
  /** Brings the page into the state of the picture. */
  readonly act?: (page: Page) => Promise<unknown>
}

const showBuild = (page: Page) => page.getByText('built 8 pages').waitFor()
const showWholeLog = async (page: Page) => {
  await page.getByText('listening on').last().waitFor()
  await page.getByRole('button', { name: 'Full height' }).click()
}
const openDialog = (button: string) => async (page: Page) => {
  await page.getByRole('button', { name: button }).first().click()
  await page.getByRole('dialog').waitFor()
}

const pictures: readonly Picture[] = [
  { file: 'projects', name: 'projects' },
  { file: 'project-dark', name: 'project', options: { ...desktop, colorScheme: 'dark' } },
  { file: 'get-started', name: 'get-started' },
  { file: 'deployment', name: 'deployment', act: showBuild },
  { file: 'phone', name: 'deployment', options: phone, act: showBuild },
  { file: 'failed', name: 'failed' },
  { file: 'releases', name: 'app' },
  { file: 'app-logs', name: 'app-logs', act: showWholeLog },
  { file: 'metrics', name: 'metrics' },
  { file: 'rollback', name: 'superseded', act: openDialog('Roll back to this') },
  { file: 'deploy', name: 'deployments', act: openDialog('Deploy') },
  { file: 'variables', name: 'variables' },
  { file: 'api-keys', name: 'api-keys' },
  { file: 'webhook', name: 'webhook' },
]

await using dashboard = await openDashboard()
await mkdir(directory, { recursive: true })
const take = (page: Page, file: string) => page.screenshot({ path: join(directory, `${file}.png`) })

const unknown = await dashboard.context(desktop)
const setup = await unknown.newPage()
await setup.goto(await dashboard.setupLink())
await setup.getByLabel('Password').waitFor()
await take(setup, 'setup')
await unknown.close()

await using seeded = await seed((await dashboard.makeUser()).client, dashboard.server)
for (const { file, name, options = desktop, act } of pictures) {
  const { context, page } = await dashboard.signedIn(options)
  page.setDefaultTimeout(60_000)
  // The browser aborts its requests when the network of an app appears or disappears on its machine.
  do await openPage(page, `${dashboard.server.url}${pagesOf(seeded)[name]}`)
  while (!(await page.evaluate<boolean>("getComputedStyle(document.documentElement).fontSize === '14px'")))
  await act?.(page)
  // Pictures show only stable content.
  await page.waitForTimeout(500)
  await take(page, file)
  await context.close()
}

await using named = await openDashboard(await namedApps())
const config = loadConfig({}, { FAIRLEAD_DATA_DIR: named.dataDirectory })
const { project_id, app_id, domainId } = await administer(
  { config, logger: pino({ level: 'silent' }) },
  ({ database }) =>
    seedDomains(named, async (text, values) => {
      const { rows } = await database.executeQuery(CompiledQuery.raw(text, [...values]))
      return rows
    }),
)
for (const [file, path] of [
  ['domain', `/projects/${project_id}/apps/${app_id}/domains/${domainId}`],
  ['certificates', '/settings/certificates'],
] as const) {
  const { context, page } = await named.signedIn(desktop)
  await openPage(page, `${named.server.url}${path}`)
  await page.waitForTimeout(500)
  await take(page, file)
  await context.close()
}
