import { describe, expect, it } from 'vitest'
import { chromiumPath, noChromium } from '../../harness/chromium.ts'
import { sharedDashboard } from '../../harness/dashboard/of-run.ts'
import { openPage } from '../../harness/dashboard/pages.ts'
import { deployAndSettle } from '../../harness/deployments.ts'
import { nodeApp, repository } from '../../harness/repository.ts'

if (chromiumPath === undefined) noChromium('the processes of an app')

const app = {
  ...nodeApp('shop'),
  'worker.js': "console.log('working'); setInterval(() => {}, 1000)",
  Procfile: 'web: node server.js\nworker: node worker.js',
}

describe.skipIf(chromiumPath === undefined)('the processes of an app', () => {
  it('are listed with their instances, and scaled within the plan', async () => {
    await using dashboard = await sharedDashboard()
    await using source = await repository(app)
    const { client } = dashboard
    const { id: project_id } = await client.projects.create({ body: { name: 'Shop', plan: 'starter' } })
    const deployed = await deployAndSettle(client, project_id, { name: 'shop', git_url: source.url })
    expect(deployed).toMatchObject({ status: 'running', failure: null })
    const { apps } = await client.apps.list({ params: { project_id } })
    const { page, context } = await dashboard.signedIn()
    page.setDefaultTimeout(60_000)
    await openPage(page, `${dashboard.server.url}/projects/${project_id}/apps/${apps[0]?.id}/processes`)
    await page.getByRole('row', { name: /^web\.1 running/ }).waitFor()
    expect(await page.getByRole('row', { name: /^worker/ }).count()).toBe(0)

    await page.getByLabel('Instances of worker').fill('2')
    await page.getByRole('button', { name: 'Scale' }).click()
    await page.getByText('the plan starter allows an app 2').waitFor()
    await page.getByLabel('Instances of worker').fill('1')
    await page.getByRole('button', { name: 'Scale' }).click()
    await page.getByText('Saved.').waitFor()
    await page.getByRole('row', { name: /^worker\.1 running/ }).waitFor()

    await page.getByRole('link', { name: 'Overview' }).last().click()
    const facts = page.getByRole('region', { name: 'Processes' })
    await expect.poll(() => facts.getByText('1 of 1 running').count()).toBe(2)
    await page
      .getByRole('region', { name: 'App', exact: true })
      .getByRole('link', { name: apps[0]?.url ?? '' })
      .waitFor()
    await page.getByRole('region', { name: 'Last hour' }).getByText('Requests').waitFor()

    await openPage(page, `${dashboard.server.url}/projects/${project_id}/apps/${apps[0]?.id}/logs`)
    const lines = page.getByLabel('Lines of the log')
    await lines.getByText('working', { exact: true }).waitFor()
    await lines.getByText('worker.1', { exact: true }).waitFor()
    expect(await page.getByLabel('Process').count()).toBe(0)
    await page.getByRole('tab', { name: 'Runtime' }).click()
    const processes = () => page.getByLabel('Process').getByRole('option').allTextContents()
    await expect.poll(processes).toEqual(['All processes', 'worker'])
    await page.getByLabel('Process').selectOption('worker')
    await lines.getByText('working', { exact: true }).waitFor()
    await page.getByRole('link', { name: /^Link to line/ }).click()
    await page.waitForURL(/#dep_\w+-worker\.1-\d+$/)
    await page.locator('[aria-current=location]').getByText('working').waitFor()

    // Another client changes one number while the page is open, and the user changes the other number.
    await openPage(page, `${dashboard.server.url}/projects/${project_id}/apps/${apps[0]?.id}/processes`)
    await page.getByLabel('Instances of worker').waitFor()
    const params = { project_id, app_id: apps[0]?.id ?? '' }
    await client.processes.update({ params, body: { processes: { worker: { instances: 0 } } } })
    await expect.poll(() => page.getByLabel('Instances of worker').inputValue()).toBe('0')
    await page.getByLabel('Instances of web').fill('2-')
    await page.getByRole('button', { name: 'Scale' }).click()
    await page.getByText('“2-” is not a whole number. Write digits only, such as 2.').waitFor()
    await page.getByLabel('Instances of web').fill('2')
    await page.getByRole('button', { name: 'Scale' }).click()
    await page.getByRole('row', { name: /^web\.2 running/ }).waitFor()
    const asked = async () => (await client.processes.list({ params })).processes.map((each) => each.asked)
    expect(await asked()).toEqual([2, 0])
    await context.close()
  })

  it('a renamed project keeps the plan that another client has chosen since the page was opened', async () => {
    await using dashboard = await sharedDashboard()
    const { client } = dashboard
    const { id: project_id } = await client.projects.create({ body: { name: 'two', plan: 'free' } })
    const { page, context } = await dashboard.signedIn()
    await openPage(page, `${dashboard.server.url}/projects/${project_id}/settings`)
    await page.getByLabel('Name', { exact: true }).fill('three')
    await client.projects.update({ params: { project_id }, body: { plan: 'pro' } })
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText('Saved.').waitFor()
    expect(await client.projects.get({ params: { project_id } })).toMatchObject({ name: 'three', plan: 'pro' })
    await expect.poll(() => page.getByLabel('Plan').inputValue()).toBe('pro')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText('Nothing was changed.').waitFor()
    await context.close()
  })

  it('a name that was typed for one project is not shown for another', async () => {
    await using dashboard = await sharedDashboard()
    const { client } = dashboard
    const [one, two] = await Promise.all(['one', 'two'].map((name) => client.projects.create({ body: { name } })))
    const { page, context } = await dashboard.signedIn()
    await openPage(page, `${dashboard.server.url}/projects/${one?.id}/settings`)
    const name = page.getByLabel('Name', { exact: true })
    // The router treats this like a link from one settings page to another.
    await page.evaluate(`history.pushState(null, "", "/projects/${two?.id}/settings")`)
    await expect.poll(() => name.inputValue()).toBe('two')
    await name.fill('three')
    await page.goBack()
    await expect.poll(() => name.inputValue()).toBe('one')
    await context.close()
  })
})
