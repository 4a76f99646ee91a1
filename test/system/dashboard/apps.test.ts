import type { Page } from 'playwright-core'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { chromiumPath, noChromium } from '../../harness/chromium.ts'
import { type SharedDashboard, sharedDashboard } from '../../harness/dashboard/of-run.ts'
import { openPage } from '../../harness/dashboard/pages.ts'
import type { TestDatabase } from '../../harness/database.ts'
import { deployAndSettle } from '../../harness/deployments.ts'
import { listening } from '../../harness/listening.ts'
import { type Repository, repository } from '../../harness/repository.ts'
import { addCopies } from './many.ts'

if (chromiumPath === undefined) noChromium('a project with hundreds of deployments')

const app = {
  'package.json': JSON.stringify({ name: 'old', scripts: { start: 'node server.js' } }),
  'server.js': `console.log('the old app is open')
require('node:http').createServer((request, response) => {
  console.log('asked for ' + request.url)
  response.end()
}).listen(process.env.PORT)`,
}

describe.skipIf(chromiumPath === undefined)('a project with 520 deployments', () => {
  let database: TestDatabase
  let dashboard: SharedDashboard
  let source: Repository
  let projectId: string
  let running: { id: string; url: string }
  let failed: string
  let busy: string
  let page: Page
  /** The paths of the test's requests to the API, without their queries. */
  let requests: string[]

  beforeAll(async () => {
    dashboard = await sharedDashboard()
    database = dashboard.database
    source = await repository(app)
    const { client } = dashboard
    projectId = (await client.projects.create({ body: { name: 'Shop' } })).id
    running = await deployAndSettle(client, projectId, { name: 'old', git_url: source.url })
    failed = (await deployAndSettle(client, projectId, { name: 'old', git_url: source.url, branch: 'nowhere' })).id
    busy = (await deployAndSettle(client, projectId, { name: 'busy', git_url: source.url, branch: 'nowhere' })).id
    const copies = Array.from({ length: 517 }, (_, index) => ({
      generation: index + 2,
      ...(index < 300 && { status: 'superseded', failure: null }),
    }))
    await addCopies(database, 'deployments', busy, copies)
    page = (await dashboard.signedIn()).page
    page.setDefaultTimeout(60_000)
    page.on('request', (request) => {
      const { pathname } = new URL(request.url())
      if (pathname.startsWith('/dashboard/api/')) requests.push(pathname.slice('/dashboard/api'.length))
    })
  })
  afterAll(async () => {
    await dashboard?.[Symbol.asyncDispose]()
    await source?.[Symbol.asyncDispose]()
  })
  beforeEach(() => {
    requests = []
  })

  const open = (path: string) => openPage(page, `${dashboard.server.url}/projects/${projectId}${path}`)
  const deployment = (id: string) => `/projects/${projectId}/deployments/${id}`
  const log = () => page.getByLabel('Lines of the log')

  it('shows the app that has run since before the newest 100, and its latest failed deployment', async () => {
    await open('')
    const row = page.getByRole('row', { name: /^old/ })
    await row.getByText('running', { exact: true }).waitFor()
    expect(await row.getByRole('link', { name: 'running', exact: true }).getAttribute('href')).toBe(
      deployment(running.id),
    )
    const link = row.getByRole('link', { name: /^last deployment failed/ })
    expect(await link.getAttribute('href')).toBe(deployment(failed))
    await page.getByText('301 succeeded, 219 failed, 0 canceled or in progress').waitFor()
    // One request for each kind of data on the page, not one for each app.
    expect(requests.length).toBeLessThanOrEqual(7)
  })

  it('lists all deployments with their commits, without a request for each', async () => {
    await open('/deployments')
    const rows = page.getByRole('table', { name: 'Deployments' }).getByRole('row')
    await expect.poll(() => rows.count()).toBe(51)
    expect(requests.length).toBeLessThanOrEqual(6)
    for (const count of [101, 151]) {
      await page.getByRole('button', { name: 'Show older deployments' }).click()
      await expect.poll(() => rows.count()).toBe(count)
    }
    await openPage(page, `${dashboard.server.url}/projects`)
    await page.getByRole('row', { name: /^Shop active 520/ }).waitFor()
    expect(requests.filter((path) => /\/dep_|^\/projects\/proj_\w+$/.test(path)).length).toBeLessThanOrEqual(2)
  })

  it('lists the releases of an app in pages, by state, branch and text', async () => {
    await open('')
    await page.getByRole('link', { name: 'busy', exact: true }).click()
    await page.getByRole('heading', { name: 'busy', level: 1 }).waitFor()
    const rows = page.getByRole('table', { name: 'Releases' }).getByRole('row')
    await expect.poll(() => rows.count()).toBe(51)
    await page.getByRole('button', { name: 'Show older releases' }).click()
    await expect.poll(() => rows.count()).toBe(101)
    await page.getByLabel('Search releases').fill(busy)
    await expect.poll(() => rows.count()).toBe(2)
    await page.getByLabel('Filter by branch').fill('main')
    await page.getByText('No release matches').waitFor()
    await page.getByLabel('Filter by branch').fill('nowhere')
    await expect.poll(() => rows.count()).toBe(2)
    await page.getByLabel('Filter by status').selectOption('canceled')
    await page.getByText('No release matches').waitFor()
  })

  it('shows only the log of the open deployment', async () => {
    await page.goto(dashboard.server.url + deployment(running.id))
    await log().getByText('the old app is open').waitFor()
    await page.getByRole('link', { name: 'Shop' }).click()
    await page.getByRole('link', { name: /^last deployment failed/ }).click()
    const failure = page.getByText('Failed in the step fetch')
    await failure.waitFor()
    await page.evaluate('history.go(-2)')
    await failure.waitFor({ state: 'detached' })
    await log().getByText('the old app is open').waitFor()
    expect(await log().count()).toBe(1)
    await page.evaluate('history.go(2)')
    await failure.waitFor()
    await log().getByText('the old app is open').waitFor({ state: 'detached' })
    await expect.poll(() => log().count()).toBe(1)
  })

  it('offers a rollback only to a release that is kept', async () => {
    await page.goto(dashboard.server.url + deployment(busy))
    await page.getByRole('button', { name: 'Redeploy' }).waitFor()
    expect(await page.getByRole('button', { name: 'Roll back to this' }).count()).toBe(0)
    await database.query("update deployments set status = 'superseded', retained = true where id = $1", [busy])
    await page.reload()
    await page.getByRole('button', { name: 'Roll back to this' }).waitFor()
    await page.getByRole('link', { name: 'busy', exact: true }).click()
    await page.getByLabel('Search releases').fill(busy)
    await page.getByRole('button', { name: 'Roll back', exact: true }).waitFor()
    await database.query("update deployments set status = 'failed', retained = false where id = $1", [busy])
  })

  it('shows one error for a deployment that does not exist, and no log', async () => {
    await page.goto(dashboard.server.url + deployment('dep_00000000000000000000000000'))
    await page.getByRole('alert').waitFor()
    expect(await page.getByRole('alert').count()).toBe(1)
    expect(await log().count()).toBe(0)
  })

  it('follows logs in eight tabs at once, and still answers', async () => {
    const tabs = [page, ...(await Promise.all(Array.from({ length: 7 }, () => page.context().newPage())))]
    await Promise.all(tabs.map((tab) => tab.goto(dashboard.server.url + deployment(running.id))))
    const line = (tab: Page, text: string) => tab.getByLabel('Lines of the log').getByText(text, { exact: true })
    await Promise.all(tabs.map((tab) => line(tab, 'the old app is open').waitFor({ timeout: 60_000 })))
    await fetch(`${running.url}/now`)
    await Promise.all(tabs.map((tab) => line(tab, 'asked for /now').waitFor({ timeout: 60_000 })))
    await tabs[3]?.close()
    await fetch(`${running.url}/later`)
    const [first, second] = tabs
    if (first === undefined || second === undefined) throw new Error('there are no tabs')
    await Promise.all([first, second].map((tab) => line(tab, 'asked for /later').waitFor({ timeout: 60_000 })))
    await second.getByRole('link', { name: 'Webhooks' }).click()
    await second.getByText('No endpoint yet').waitFor({ timeout: 60_000 })
    await Promise.all(tabs.slice(1).map((tab) => tab.close()))
  })

  it('deletes an app with all its deployments, after a question that Escape cancels', async () => {
    await open('')
    const actions = page.getByRole('button', { name: 'Actions for busy' })
    await actions.click()
    await page.getByRole('menuitem', { name: 'Delete' }).click()
    await page.getByRole('dialog').waitFor()
    await page.keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    await expect.poll(() => page.evaluate("document.activeElement.getAttribute('aria-label')")).toBe('Actions for busy')
    await actions.click()
    await page.getByRole('menuitem', { name: 'Delete' }).click()
    await page.getByLabel('Type busy to confirm').fill('busy')
    await page.getByRole('button', { name: 'Delete app' }).click()
    await actions.waitFor({ state: 'detached' })
    await page.getByText('1 succeeded, 1 failed, 0 canceled or in progress').waitFor()
    const rows = await database.query('select id from deployments where project_id = $1', [projectId])
    expect(rows).toHaveLength(2)
    await expect.poll(() => page.evaluate('document.activeElement.tagName')).toBe('H1')
  })

  it('trusts a repository by its address and id, shows the workflow to copy, and removes the trust', async () => {
    await open('/trust')
    await page.getByRole('button', { name: 'Trust a repository' }).click()
    await page.getByLabel('Repository', { exact: true }).fill('https://github.com/acme/shop.git')
    await page.getByText('gh api repos/acme/shop --jq .id').waitFor()
    await page.getByRole('button', { name: 'Trust repository' }).click()
    await page.getByText('is required: a name alone could belong to somebody else one day').waitFor()
    await page.getByLabel('Id of the repository').fill('700100200')
    await page.getByRole('button', { name: 'Trust repository' }).click()
    const row = page.getByRole('row', { name: /^acme\/shop id 700100200/ })
    await row.getByText('branch main').waitFor()
    const workflow = await page.getByRole('region', { name: 'Workflow', exact: true }).textContent()
    expect(workflow).toContain('id-token: write')
    expect(workflow).toContain(`project-id: ${projectId}`)
    expect(workflow).not.toContain('api-key')
    await row.getByRole('button', { name: 'Remove acme/shop' }).click()
    await page.getByRole('button', { name: 'Remove trust' }).click()
    await page.getByText('No repository is trusted yet').waitFor()
  })

  it('names the run of a workflow at its key and at its deployment', async () => {
    const { id } = await dashboard.client.apiKeys.create({ body: { name: 'acme/shop', preset: 'deploy' } })
    const run_url = 'https://github.com/acme/shop/actions/runs/1'
    const run = { repository: 'acme/shop', run_url, actor: 'octocat', event: 'push' }
    const more = { trust_id: 'trust_1', issuer: 'https://token.actions.githubusercontent.com' }
    const whole = { ...run, ...more, ref: 'refs/heads/main', workflow: 'deploy.yml', environment: null }
    await database.query('update api_keys set workflow = $1 where id = $2', [JSON.stringify(whole), id])
    await openPage(page, `${dashboard.server.url}/settings/api-keys`)
    const link = page.getByRole('link', { name: 'run of a workflow of acme/shop' })
    expect(await link.getAttribute('href')).toBe(run_url)

    const trigger = JSON.stringify({ kind: 'workflow', name: 'acme/shop', ...run })
    await database.query('update deployments set triggered_by = $1 where id = $2', [trigger, running.id])
    await openPage(page, dashboard.server.url + deployment(running.id))
    await page.getByText('run of acme/shop on push by octocat').waitFor()
  })

  it('lists all deliveries to an endpoint', async () => {
    await using endpoint = await listening((_, response) => void response.end())
    const { client } = dashboard
    const { id } = await client.webhooks.create({ body: { url: endpoint.url } })
    await client.webhooks.test({ params: { id } })
    const deliveries = () =>
      database.query<{ id: string; status: string }>('select id, status from deliveries where webhook_id = $1', [id])
    const [delivery] = await deliveries()
    await expect.poll(async () => (await deliveries()).map(({ status }) => status)).toEqual(['succeeded'])
    await addCopies(
      database,
      'deliveries',
      String(delivery?.id),
      Array.from({ length: 129 }, () => ({})),
    )
    await openPage(page, `${dashboard.server.url}/webhooks/${id}`)
    const rows = page.getByRole('table', { name: 'Deliveries' }).getByRole('row')
    for (const count of [51, 101, 131]) {
      await expect.poll(() => rows.count()).toBe(count)
      if (count < 131) await page.getByRole('button', { name: 'Show older deliveries' }).click()
    }
  })

  it('had no page with errors', () => {
    expect(dashboard.pageErrors).toEqual([])
  })
})
