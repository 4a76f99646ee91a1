import { describe, expect, it } from 'vitest'
import { chromiumPath, noChromium } from '../../harness/chromium.ts'
import { sharedDashboard } from '../../harness/dashboard/of-run.ts'
import { openPage } from '../../harness/dashboard/pages.ts'

if (chromiumPath === undefined) noChromium('the settings of an app')

describe.skipIf(chromiumPath === undefined)('the settings of an app', () => {
  it('are its name, and a deploy key, whose public part is shown, or a token, which is not shown', async () => {
    await using dashboard = await sharedDashboard()
    const { client } = dashboard
    const { id: project_id } = await client.projects.create({ body: { name: 'Shop' } })
    const git_url = 'https://git.example.com/team/shop.git'
    await client.deployments.create({ params: { project_id }, body: { name: 'shop', git_url } })
    const [app] = (await client.apps.list({ params: { project_id } })).apps
    const { page, context } = await dashboard.signedIn()
    page.setDefaultTimeout(60_000)
    await openPage(page, `${dashboard.server.url}/projects/${project_id}/apps/${app?.id}/settings`)
    const { url } = await client.apps.get({ params: { project_id, id: app?.id ?? '' } })
    await page.getByText(`Its address stays ${url}`).waitFor()
    await page.getByLabel('Name', { exact: true }).fill('store')
    await page.getByRole('button', { name: 'Rename' }).click()
    await page.getByRole('heading', { name: 'store', level: 1 }).waitFor()
    expect(await client.apps.get({ params: { project_id, id: app?.id ?? '' } })).toMatchObject({ name: 'store', url })

    await page.getByText('Deployments of a private repository need').waitFor()
    await page.getByRole('button', { name: 'Add credentials' }).click()
    await page.getByRole('button', { name: 'Make key' }).click()
    const shown = page.getByRole('region', { name: 'Public key' })
    await shown.waitFor()
    expect(await shown.textContent()).toMatch(/^ssh-ed25519 \S+ fairlead-app_/)
    await page.getByText('deploy git@git.example.com:team/shop.git.').waitFor()
    expect(await page.getByRole('button', { name: 'Copy' }).count()).toBe(1)

    await page.getByRole('button', { name: 'Replace' }).click()
    await page.getByLabel('Kind').selectOption('token')
    await page.getByLabel('Token', { exact: true }).fill('very-secret')
    await page.getByRole('button', { name: 'Store token' }).click()
    await page.getByText(git_url).waitFor()
    expect(await shown.count()).toBe(0)
    expect(await page.content()).not.toContain('very-secret')
    await page.getByRole('button', { name: 'Remove' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Remove' }).click()
    await page.getByText('Deployments of a private repository need').waitFor()
    await context.close()
  })
})
