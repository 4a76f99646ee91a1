import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { openDashboard } from '../harness/dashboard.ts'
import { openPage, pagesOf } from './pages.ts'
import { seed } from './seed.ts'

/** `npm run screenshots`: takes the pictures of the guides from a real server with data on every page. */
const directory = join(import.meta.dirname, '../../docs/images')
const desktop = { colorScheme: 'light', viewport: { width: 1120, height: 700 } } as const
const phone = { colorScheme: 'light', viewport: { width: 390, height: 780 } } as const
const pictures = [
  { file: 'projects', name: 'projects', options: desktop },
  { file: 'project-dark', name: 'project', options: { ...desktop, colorScheme: 'dark' } },
  { file: 'deployment', name: 'deployment', options: desktop },
  { file: 'api-keys', name: 'api-keys', options: desktop },
  { file: 'webhook', name: 'webhook', options: desktop },
  { file: 'phone', name: 'deployment', options: phone },
] as const

await using dashboard = await openDashboard()
await using seeded = await seed(dashboard)
await mkdir(directory, { recursive: true })
for (const { file, name, options } of pictures) {
  const { context, page } = await dashboard.signedIn(options)
  await openPage(page, `${dashboard.server.url}${pagesOf(seeded)[name]}`)
  if (name === 'deployment') await page.getByText('built 8 pages').waitFor()
  await page.screenshot({ path: join(directory, `${file}.png`) })
  await context.close()
}
