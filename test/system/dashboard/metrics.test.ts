import { describe, expect, it } from 'vitest'
import { chromiumPath, noChromium } from '../../harness/chromium.ts'
import { sharedDashboard } from '../../harness/dashboard/of-run.ts'
import { openPage } from '../../harness/dashboard/pages.ts'
import { deployAndSettle } from '../../harness/deployments.ts'
import { nodeApp, repository } from '../../harness/repository.ts'

if (chromiumPath === undefined) noChromium('the metrics of an app')

/** Fills all buckets of an app with the numbers of a busy app: 10 responses of 2xx and one of 4xx in each. */
const busy = `
  insert into app_metrics
  select $1, seconds, mod(bucket, buckets)::integer, to_timestamp(bucket * seconds), 11, '{10,0,1,0}',
    array_fill(0, array[20]) || array[10], 40000000 + 20000000 * sin(bucket / 5.0), 512000000,
    seconds * (0.2 + 0.1 * sin(bucket / 7.0)), seconds, 0.5, 1, 0
  from (values (60, 60), (600, 144), (3600, 168)) as rings (seconds, buckets),
    lateral generate_series(
      floor(extract(epoch from now()) / seconds)::bigint - buckets + 2, floor(extract(epoch from now()) / seconds)::bigint - 1
    ) as bucket
  on conflict do nothing`

describe.skipIf(chromiumPath === undefined)('the metrics of an app', () => {
  it('are charts with their numbers in words, for an hour, a day and a week', async () => {
    await using dashboard = await sharedDashboard()
    await using source = await repository(nodeApp('here'))
    const { client, database } = dashboard
    const { id: project_id } = await client.projects.create({ body: { name: 'Shop', plan: 'starter' } })
    await deployAndSettle(client, project_id, { name: 'shop', git_url: source.url })
    const { apps } = await client.apps.list({ params: { project_id } })
    await database.query(busy, [apps[0]?.id])
    const { page, context } = await dashboard.signedIn()
    page.setDefaultTimeout(60_000)
    await openPage(page, `${dashboard.server.url}/projects/${project_id}/apps/${apps[0]?.id}`)
    await page.getByRole('link', { name: 'Metrics' }).click()
    const requests = page.getByRole('region', { name: 'Requests' })
    const asked = async () =>
      Number(
        /^([\d,]+) requests/
          .exec((await requests.getByRole('img').getAttribute('aria-label')) ?? '')?.[1]
          ?.replace(',', ''),
      )
    await requests.getByRole('img', { name: /× 2xx/ }).waitFor()
    expect(await asked()).toBeGreaterThan(11 * 57)
    await page
      .getByRole('region', { name: 'Memory' })
      .getByText(/ of 512 MB at last/, { exact: false })
      .first()
      .waitFor()
    await page
      .getByRole('region', { name: 'Response times' })
      .getByText(/^p50 \d.* ms, p95 /)
      .waitFor()
    expect(await requests.locator('line title').first().textContent()).toContain('Release ')

    await page.getByRole('link', { name: 'Last 7 days' }).click()
    await expect.poll(asked).toBeGreaterThan(11 * 165)
    expect(page.url()).toContain('range=7d')
    await page.reload()
    await expect.poll(asked).toBeGreaterThan(11 * 165)
    await context.close()
  })
})
