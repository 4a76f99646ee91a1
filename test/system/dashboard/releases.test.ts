import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { bundleOf, uploadBundle } from '../../harness/bundle.ts'
import { chromiumPath, noChromium } from '../../harness/chromium.ts'
import { type SharedDashboard, sharedDashboard } from '../../harness/dashboard/of-run.ts'
import { createdDatabase } from '../../harness/databases.ts'
import { deployAndSettle } from '../../harness/deployments.ts'
import { type Repository, repository } from '../../harness/repository.ts'
import { loggingApp } from './logging-app.ts'

if (chromiumPath === undefined) noChromium('releases, variables and links of an app')

/** Every test continues where the one before it ended: an app was rolled back to its first release. */
describe.skipIf(chromiumPath === undefined)('a user of the dashboard', () => {
  let dashboard: SharedDashboard
  let page: Page
  let app: Repository
  let projectId = ''
  let rolledBack = ''
  const cleanup = new AsyncDisposableStack()
  const button = (name: string | RegExp) => page.getByRole('button', { name })
  const dialog = () => page.getByRole('dialog')
  const url = (path: string) => dashboard.server.url + path

  beforeAll(async () => {
    dashboard = cleanup.use(await sharedDashboard())
    app = cleanup.use(await repository(loggingApp('first')))
    const { client } = dashboard
    projectId = (await client.projects.create({ body: { name: 'Shop' } })).id
    const given = { name: 'storefront', git_url: app.url }
    const env_vars = { GREETING: 'hello you', LEVEL: '3' }
    rolledBack = (await deployAndSettle(client, projectId, { ...given, env_vars })).id
    await app.commit(loggingApp('second'))
    await deployAndSettle(client, projectId, given)
    const params = { project_id: projectId, id: rolledBack }
    await client.deployments.rollback({ params })
    await expect.poll(async () => (await client.deployments.get({ params })).status).toBe('running')
    page = (await dashboard.signedIn()).page
    page.setDefaultTimeout(60_000)
  })
  afterAll(() => cleanup.disposeAsync())

  it('promotes what runs to another app, without a build', async () => {
    const before = url(`/projects/${projectId}/deployments/${rolledBack}`)
    await page.goto(before)
    await button('Promote').click()
    await dialog().getByLabel('App').fill('storefront-production')
    await dialog().getByRole('button', { name: 'Promote' }).click()
    await page.waitForURL((next) => next.href !== before)
    await page.getByRole('definition').getByText('running').waitFor()
    await page.getByRole('definition').getByText(rolledBack).waitFor()
    const address = (await page.getByRole('link', { name: /^http:/ }).getAttribute('href')) ?? ''
    expect(await (await fetch(address)).text()).toBe('first')
    await page.goto(before)
  })

  it('changes variables after the rollback, and applies them to the commit that serves', async () => {
    const address = (await page.getByRole('link', { name: /^http:/ }).getAttribute('href')) ?? ''
    const variables = async () => (await fetch(`${address}/variables`)).json()
    expect(await variables()).toEqual(['hello you', '3', null])
    await page.getByRole('listitem').getByText('GREETING').waitFor()
    await page.getByRole('link', { name: 'Change variables' }).click()
    await page.getByRole('row', { name: 'GREETING secret' }).waitFor()
    await button('Actions for LEVEL').click()
    await page.getByRole('menuitem', { name: 'Change' }).click()
    await dialog().getByLabel('Value of variable 1').fill('4')
    await dialog().getByRole('button', { name: 'Save' }).click()
    await button('Add variables').click()
    await dialog().getByRole('button', { name: 'Paste or upload a dotenv file' }).click()
    const file = { name: '.env', mimeType: 'text/plain', buffer: Buffer.from('COLOUR=blue\n') }
    await dialog().getByLabel('Dotenv file', { exact: true }).setInputFiles(file)
    await dialog().getByLabel('Name of variable 1').waitFor()
    await dialog().getByLabel('Kind').selectOption('plain')
    await dialog().getByRole('button', { name: 'Save' }).click()
    await page.getByRole('row', { name: 'COLOUR blue' }).waitFor()
    expect(await variables()).toEqual(['hello you', '3', null])
    await button('Apply').click()
    await dialog().getByText('Added: COLOUR').waitFor()
    await dialog().getByText('Changed: LEVEL').waitFor()
    await dialog().getByRole('button', { name: 'Apply' }).click()
    await page.waitForURL(/\/deployments\/dep_/)
    await page.getByRole('definition').getByText('running').waitFor()
    expect(await variables()).toEqual(['hello you', '4', 'blue'])
    // The newest commit of the branch answers otherwise: it was rolled back.
    expect(await (await fetch(address)).text()).toBe('first')
    expect(await page.content()).not.toContain('hello you')
  })

  it('keeps all variables when an app is deployed again by its name, and removes one', async () => {
    const address = (await page.getByRole('link', { name: /^http:/ }).getAttribute('href')) ?? ''
    const variables = async () => (await fetch(`${address}/variables`)).json()
    await page.goto(url(`/projects/${projectId}/deployments`))
    await button('Deploy').click()
    await dialog().getByLabel('App').fill('storefront')
    await dialog().getByLabel('Git repository').fill(app.url)
    await dialog().getByRole('button', { name: 'Deploy' }).click()
    await page.waitForURL(/\/deployments\/dep_/)
    await page.getByRole('definition').getByText('running').waitFor()
    expect(await variables()).toEqual(['hello you', '4', 'blue'])
    await page.getByRole('link', { name: 'Change variables' }).click()
    await button('Actions for COLOUR').click()
    await page.getByRole('menuitem', { name: 'Remove' }).click()
    await dialog().getByRole('button', { name: 'Remove variable' }).click()
    await button('Apply').click()
    await dialog().getByText('Removed: COLOUR').waitFor()
    await dialog().getByRole('button', { name: 'Apply' }).click()
    await page.waitForURL(/\/deployments\/dep_/)
    await page.getByRole('definition').getByText('running').waitFor()
    expect(await variables()).toEqual(['hello you', '4', null])
  })

  it('deploys an uploaded source again with another variable', async () => {
    const { client } = dashboard
    const { id: source_id } = await uploadBundle(client, projectId, await bundleOf(app, 'main'))
    const { id, commit } = await deployAndSettle(client, projectId, { name: 'bundled', source_id })
    await page.goto(url(`/projects/${projectId}/deployments/${id}`))
    await page.getByRole('definition').getByText('uploaded', { exact: true }).waitFor()
    await button('Redeploy').click()
    await dialog()
      .getByText(String(commit?.slice(0, 12)))
      .waitFor()
    expect(await dialog().getByLabel('Git repository').count()).toBe(0)
    await dialog().getByRole('button', { name: 'Add a variable' }).click()
    await dialog().getByLabel('Name of variable 1').fill('GREETING')
    await dialog().getByLabel('Value of variable 1').fill('hello')
    await dialog().getByRole('button', { name: 'Deploy' }).click()
    await page.waitForURL((next) => !next.href.endsWith(id))
    await page.getByRole('definition').getByText('running').waitFor()
    const address = (await page.getByRole('link', { name: /^http:/ }).getAttribute('href')) ?? ''
    expect(await (await fetch(`${address}/variables`)).json()).toEqual(['hello', null, null])
  })

  it('links the database to an app, which both sides show', async () => {
    await createdDatabase(dashboard.client, projectId, { name: 'orders' })
    await page.goto(url(`/projects/${projectId}`))
    await page.getByRole('link', { name: 'storefront', exact: true }).click()
    await page.getByRole('link', { name: 'Variables', exact: true }).click()
    await button('Link a database').click()
    await dialog().getByRole('combobox').selectOption('orders')
    await dialog().getByRole('button', { name: 'Link' }).click()
    await page.getByText('1 change is not applied yet.').waitFor()
    await page.getByRole('listitem').getByRole('link', { name: 'orders' }).click()
    await page.getByRole('listitem').getByText('DATABASE_URL').waitFor()
    await page.getByRole('listitem').getByRole('link', { name: 'storefront' }).click()
    await button('Unlink').click()
    await dialog().getByRole('button', { name: 'Unlink' }).click()
    await page.getByText('1 change is not applied yet.').waitFor({ state: 'detached' })
  })

  it('chooses one of the folders that hold apps', async () => {
    const files = Object.entries(loggingApp('below')).map(([path, text]) => [`services/shop/${path}`, text])
    await using several = await repository({ 'README.md': 'see services', ...Object.fromEntries(files) })
    await page.goto(url(`/projects/${projectId}/deployments`))
    await button('Deploy').click()
    await dialog().getByLabel('App').fill('several')
    await dialog().getByLabel('Git repository').fill(several.url)
    await dialog().getByRole('button', { name: 'Deploy' }).click()
    await page.waitForURL(/\/deployments\/dep_/)
    await page.getByRole('alert').getByText('Failed in the step plan').waitFor()
    await button('Deploy services/shop (node)').click()
    expect(await page.getByLabel('Folder').inputValue()).toBe('services/shop')
    await page.getByRole('dialog').getByRole('button', { name: 'Deploy', exact: true }).click()
    await page.getByRole('definition').getByText('running').waitFor()
    await page.getByRole('definition').getByText('services/shop').waitFor()
  })

  it('saw no page with errors or with requests to other origins', () => {
    expect(dashboard.pageErrors).toEqual([])
  })
})
