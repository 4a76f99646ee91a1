import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { openDashboard } from '../harness/dashboard.ts'
import { pagesOf } from './pages.ts'
import { seed } from './seed.ts'

/** `npm run screenshots`: the pictures of the guides, from a real server with something on every page. */
const directory = join(import.meta.dirname, '../../docs/images')
const desk = { colorScheme: 'light', viewport: { width: 1120, height: 700 } } as const
const phone = { colorScheme: 'light', viewport: { width: 390, height: 780 } } as const
const pictures = [
  { name: 'projects', page: 'projects', options: desk },
  { name: 'project-dark', page: 'project', options: { ...desk, colorScheme: 'dark' } },
  { name: 'deployment', page: 'deployment', options: desk },
  { name: 'api-keys', page: 'api-keys', options: desk },
  { name: 'webhook', page: 'webhook', options: desk },
  { name: 'phone', page: 'deployment', options: phone },
] as const

await using dashboard = await openDashboard()
await using seeded = await seed(dashboard)
await mkdir(directory, { recursive: true })
for (const { name, page: place, options } of pictures) {
  const { context, page } = await dashboard.signedIn(options)
  await page.goto(`${dashboard.server.url}${pagesOf(seeded)[place]}`)
  await page.getByRole('heading', { level: 1 }).waitFor()
  await page
    .getByText(/^Loading /)
    .first()
    .waitFor({ state: 'detached' })
  if (place === 'deployment') await page.getByText('built 8 pages').waitFor()
  await page.screenshot({ path: join(directory, `${name}.png`) })
  await context.close()
}
