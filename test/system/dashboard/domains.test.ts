import type { Client } from '@fairlead/server/client'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { newId } from '../../../server/src/platform/ids.ts'
import { chromiumPath, noChromium } from '../../harness/chromium.ts'
import { ownDashboard, sharedDashboard } from '../../harness/dashboard/of-run.ts'
import { openPage } from '../../harness/dashboard/pages.ts'
import type { Dashboard } from '../../harness/dashboard.ts'
import type { TestDatabase } from '../../harness/database.ts'
import { freePort } from '../../harness/ports.ts'
import { problemsOfDialog, problemsOnDeskAndPhone } from './accessibility.ts'

if (chromiumPath === undefined) noChromium('the domains of an app')

const problem = { code: 'no_address', severity: 'error', message: 'No record was found. Set the CNAME record.' }

describe.skipIf(chromiumPath === undefined)('the domains of an app', { timeout: 120_000 }, () => {
  let database: TestDatabase
  let dashboard: Dashboard
  let client: Client
  let params: { readonly project_id: string; readonly app_id: string }
  let path: string
  beforeAll(async () => {
    const own = await ownDashboard({
      FAIRLEAD_APPS_DOMAIN: 'apps.example.net',
      FAIRLEAD_GATEWAY_PORT: String(await freePort()),
    })
    dashboard = own
    database = own.database
    client = (await dashboard.makeUser()).client
    const { id: project_id } = await client.projects.create({ body: { name: 'Shop', plan: 'enterprise' } })
    await client.deployments.create({
      params: { project_id },
      body: { name: 'storefront', git_url: 'https://git.example.com/team/shop.git' },
    })
    const [app] = (await client.apps.list({ params: { project_id } })).apps
    params = { project_id, app_id: app?.id ?? '' }
    path = `/projects/${project_id}/apps/${params.app_id}/domains`
  })
  afterAll(() => dashboard?.[Symbol.asyncDispose]())

  const open = (page: Page, at: string) => openPage(page, dashboard.server.url + at)
  const signedIn = async (options: Parameters<Dashboard['signedIn']>[0] = {}) => {
    const { context, page } = await dashboard.signedIn(options)
    page.setDefaultTimeout(60_000)
    return { page, [Symbol.asyncDispose]: () => context.close() }
  }
  /** Sets the result of a domain's check. Other tests cover DNS. */
  const settle = async (name: string, status: 'active' | 'failing', problems: readonly object[] = []) => {
    const checked = () => database.query('select from domains where name = $1 and checked_at is not null', [name])
    await expect.poll(checked, { timeout: 60_000 }).toHaveLength(1)
    await database.query(
      "update domains set status = $2, problems = $3, served_since = now(), next_check_at = now() + interval '6 hours' where name = $1",
      [name, status, JSON.stringify(problems)],
    )
  }

  it('are added with their records, which can be copied, and are shown as served without a reload', async () => {
    await using given = await signedIn({ permissions: ['clipboard-read', 'clipboard-write'] })
    const { page } = given
    await open(page, path)
    await page.getByText('Your own domain, such as shop.example.com,').waitFor()
    await page.getByRole('button', { name: 'Add a domain' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Name').fill('co.uk')
    await dialog.getByRole('button', { name: 'Add domain' }).click()
    const refusal = dialog.getByRole('alert')
    await refusal.waitFor()
    expect(await dialog.getByLabel('Name').getAttribute('aria-invalid')).toBe('true')
    expect(await problemsOfDialog(page)).toEqual([])
    await dialog.getByLabel('Name').fill('shop.example.com')
    await dialog.getByRole('button', { name: 'Add domain' }).click()

    await page.getByRole('heading', { name: 'shop.example.com' }).waitFor()
    await page.getByText('pending', { exact: true }).waitFor()
    const [domain] = (await client.domains.list({ params })).domains
    const cname = domain?.records.find(({ type }) => type === 'CNAME')
    const records = page.getByRole('table', { name: 'DNS records' })
    await records.getByText(cname?.value ?? '').waitFor()
    await records.getByRole('button', { name: 'Copy the value of the CNAME record' }).click()
    await records.getByText('Copied').waitFor()
    expect(await page.evaluate<string>('navigator.clipboard.readText()')).toBe(cname?.value)

    await settle('shop.example.com', 'active')
    await page.getByText('active', { exact: true }).waitFor()
    await page.getByText('The DNS records are right.').waitFor()
  })

  it('have a primary domain, to which others redirect, and are removed after a question', async () => {
    await client.domains.create({ params, body: { name: 'www.shop.example.com', redirect: true } })
    await client.domains.create({ params, body: { name: 'bücher.example.com' } })
    await settle('www.shop.example.com', 'active')
    await using given = await signedIn()
    const { page } = given
    await open(page, path)
    const row = (name: string) => page.getByRole('row', { name: new RegExp(`^${name} `) })
    await row('bücher.example.com').getByText('xn--bcher-kva.example.com').waitFor()
    await row('bücher.example.com').getByText('nothing yet').waitFor()
    const act = async (name: string, action: string) => {
      await page.getByRole('button', { name: `Actions for ${name}` }).click()
      await page.getByRole('menuitem', { name: action }).click()
      await page.getByRole('dialog').getByRole('button', { name: action }).click()
    }
    await row('shop.example.com').getByText('the app (primary)').waitFor()
    await row('www.shop.example.com').getByText('a redirect to shop.example.com').waitFor()
    await act('www.shop.example.com', 'Make primary')
    await row('www.shop.example.com').getByText('the app (primary)').waitFor()
    await act('shop.example.com', 'Redirect to the primary')
    await row('shop.example.com').getByText('a redirect to www.shop.example.com').waitFor()
    await act('shop.example.com', 'Serve without redirect')
    await row('shop.example.com').getByText('the app', { exact: true }).waitFor()
    await page.getByRole('button', { name: 'Actions for bücher.example.com' }).click()
    await page.getByRole('menuitem', { name: 'Remove' }).click()
    await page.getByRole('dialog').getByText('the name is free at once').waitFor()
    await page.getByRole('dialog').getByRole('button', { name: 'Remove domain' }).click()
    await row('bücher.example.com').waitFor({ state: 'detached' })
    await open(page, path.replace('/domains', '/overview'))
    await page.getByRole('link', { name: 'https://shop.example.com' }).waitFor()
  })

  it('that were removed elsewhere are reported as removed, and removing them again is no error', async () => {
    const { id } = await client.domains.create({ params, body: { name: 'gone.example.com' } })
    await using given = await signedIn()
    const { page } = given
    await open(page, `${path}/${id}`)
    await page.getByRole('button', { name: 'Actions for gone.example.com' }).click()
    await page.getByRole('menuitem', { name: 'Remove' }).click()
    await client.domains.delete({ params: { ...params, id } })
    await page.getByRole('dialog').getByRole('button', { name: 'Remove domain' }).click()
    await page.getByRole('button', { name: 'Add a domain' }).waitFor()
    await open(page, `${path}/${id}`)
    await page.getByText('This app has no such domain').waitFor()
  })

  it('show their faults and are checked on request', async () => {
    const domain = await client.domains.create({ params, body: { name: 'wrong.example.com' } })
    await settle('wrong.example.com', 'failing', [problem])
    await using given = await signedIn()
    const { page } = given
    await open(page, path)
    await page.getByRole('row', { name: /^wrong\.example\.com 1 problem failing / }).waitFor()
    await page.getByRole('link', { name: 'wrong.example.com' }).click()
    await page.getByRole('list', { name: 'Problems' }).getByText(`Error: ${problem.message}`).waitFor()
    const asked = page.waitForResponse((response) => response.url().endsWith(`${domain.id}/check`))
    await page.getByRole('button', { name: 'Check now' }).click()
    expect((await asked).status()).toBe(200)
    await page.getByText(/^Checked: /).waitFor({ state: 'attached' })
  })

  it('are accessible, fit a desktop and a phone, and need few requests', async () => {
    const name = 'a-name-that-is-rather-long.of-a-branch.shop.example.com'
    const { id } = await client.domains.create({ params, body: { name } })
    await settle(name, 'failing', [problem, { ...problem, code: 'caa', severity: 'warning' }])
    await using given = await signedIn()
    const { page } = given
    let requests = 0
    page.on('request', (request) => {
      if (new URL(request.url()).pathname.startsWith('/dashboard/api/')) requests += 1
    })
    for (const at of [path, `${path}/${id}`]) {
      requests = 0
      await page.setViewportSize({ width: 1280, height: 800 })
      await open(page, at)
      await page.getByText(name).first().waitFor()
      expect(requests).toBeLessThanOrEqual(6)
      expect([at, ...(await problemsOnDeskAndPhone(page))]).toEqual([at])
    }
  })

  it('appear on the page, even hundreds of them, with names as long as DNS allows', async () => {
    const { id: project_id } = await client.projects.create({ body: { name: 'Shops', plan: 'enterprise' } })
    const git_url = 'https://git.example.com/team/shops.git'
    await client.deployments.create({ params: { project_id }, body: { name: 'shops', git_url } })
    const app_id = (await client.apps.list({ params: { project_id } })).apps[0]?.id ?? ''
    const labels = ['l', 'm', 'n'].map((letter) => letter.repeat(63))
    const longest = `${labels.join('.')}.${'o'.repeat(49)}.example.com`
    const names = [
      'first.example.com',
      ...Array.from({ length: 60 }, (_, index) => `shop-${index}.example.com`),
      longest,
    ]
    for (const name of names) {
      await database.query(
        `insert into domains (id, app_id, project_id, account_id, name, registered, status, is_primary, redirect, token,
           checked_at, next_check_at, served_since)
         select $1, $2, $3, id, $4, 'example.com', 'active', $5, not $5, 'token', now(), now() + interval '6 hours', now()
         from accounts where operator`,
        [newId('domain'), app_id, project_id, name, name === names[0]],
      )
    }
    await using given = await signedIn({ viewport: { width: 360, height: 740 } })
    const { page } = given
    const at = `/projects/${project_id}/apps/${app_id}`
    await open(page, `${at}/overview`)
    await page.getByRole('link', { name: 'and 52 more' }).click()
    const redirects = page.getByRole('table', { name: 'Domains' }).getByText(/^a redirect/)
    // The primary domain is on the second page.
    await expect
      .poll(async () => new Set(await redirects.allTextContents()))
      .toEqual(new Set(['a redirect to the primary']))
    await page.getByRole('button', { name: 'Show older domains' }).click()
    await expect
      .poll(async () => new Set(await redirects.allTextContents()))
      .toEqual(new Set(['a redirect to first.example.com']))
    await page.getByRole('link', { name: longest }).click()
    const heading = page.getByRole('heading', { name: longest })
    await heading.waitFor()
    expect((await heading.boundingBox())?.width).toBeLessThan(360)
    await page.getByRole('button', { name: `Actions for ${longest}` }).click()
    await page.getByRole('menuitem', { name: 'Remove' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Remove domain' }).waitFor()
    expect(await problemsOfDialog(page)).toEqual([])
  })

  it('cause no errors and no requests to other origins', () => {
    expect(dashboard.pageErrors).toEqual([])
  })
})

it.skipIf(chromiumPath === undefined)('a server without a domain says what its operator must set', async () => {
  await using dashboard = await sharedDashboard()
  const { client } = dashboard
  const { id: project_id } = await client.projects.create({ body: { name: 'Shop' } })
  const git_url = 'https://git.example.com/team/shop.git'
  await client.deployments.create({ params: { project_id }, body: { name: 'shop', git_url } })
  const [app] = (await client.apps.list({ params: { project_id } })).apps
  const { page, context } = await dashboard.signedIn()
  await openPage(page, `${dashboard.server.url}/projects/${project_id}/apps/${app?.id}/domains`)
  await page.getByText('its operator sets FAIRLEAD_DOMAIN').waitFor()
  expect(await page.getByRole('button', { name: 'Add a domain' }).count()).toBe(0)
  await page.getByRole('link', { name: app?.url ?? '' }).waitFor()
  await context.close()
})
