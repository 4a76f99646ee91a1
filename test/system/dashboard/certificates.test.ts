import type { Client } from '@fairlead/server/client'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { newId } from '../../../server/src/platform/ids.ts'
import { uploadOf } from '../../harness/certificates.ts'
import { chromiumPath, noChromium } from '../../harness/chromium.ts'
import { type SharedDashboard, sharedDashboard } from '../../harness/dashboard/of-run.ts'
import { openPage } from '../../harness/dashboard/pages.ts'
import type { TestDatabase } from '../../harness/database.ts'
import { problemsOfDialog, problemsOfPage, problemsOnDeskAndPhone } from './accessibility.ts'

if (chromiumPath === undefined) noChromium('the certificates of an account')

const path = '/settings/certificates'
const failure = { code: 'caa', message: 'A CAA record of the name allows only other certificate authorities.' }

describe.skipIf(chromiumPath === undefined)('the certificates of an account', { timeout: 120_000 }, () => {
  let database: TestDatabase
  let dashboard: SharedDashboard
  let client: Client
  let projectId: string
  let appId: string
  beforeAll(async () => {
    dashboard = await sharedDashboard()
    database = dashboard.database
    client = dashboard.client
    projectId = (await client.projects.create({ body: { name: 'Shop' } })).id
    const git_url = 'https://git.example.com/team/shop.git'
    await client.deployments.create({ params: { project_id: projectId }, body: { name: 'shop', git_url } })
    appId = (await client.apps.list({ params: { project_id: projectId } })).apps[0]?.id ?? ''
  })
  afterAll(() => dashboard?.[Symbol.asyncDispose]())

  /** Adds a certificate that the server has obtained a month ago; with failures, its renewals have failed. */
  const obtained = (name: string, { days = 60, failures = 0 } = {}) =>
    database.query(
      `insert into certificates (id, account_id, project_id, app_id, names, source, chain, private_key, issuer, serial,
         not_before, expires_at, attempted_at, next_attempt_at, attempts, failure, alerted_at)
       values ($1, $8, $2, $3, array[$4], 'automatic', 'a chain', 'sealed', 'Test Authority', '01AB', now() - interval '30 days',
         now() + make_interval(days => $5, hours => 1), now() - interval '2 hours', now() + interval '3 days', $6, $7,
         case when $6 > 1 then now() end)`,
      [
        newId('certificate'),
        projectId,
        appId,
        name,
        days,
        failures,
        failures > 0 ? JSON.stringify(failure) : null,
        dashboard.accountId,
      ],
    )
  const open = (page: Page, at: string) => openPage(page, dashboard.server.url + at)
  const signedIn = async (options: Parameters<SharedDashboard['signedIn']>[0] = {}) => {
    const { context, page } = await dashboard.signedIn(options)
    page.setDefaultTimeout(60_000)
    return { page, [Symbol.asyncDispose]: () => context.close() }
  }

  it('are uploaded from a file with the key, which is not stored, and removed', async () => {
    const { certificate, private_key } = await uploadOf({ names: ['www.example.org', '*.example.org'] })
    const other = await uploadOf({ names: ['other.example.org'] })
    await using given = await signedIn()
    const { page } = given
    await open(page, path)
    await page.getByText('No certificates').waitFor()
    await page.getByRole('button', { name: 'Upload' }).click()
    const dialog = page.getByRole('dialog')
    const files = dialog.locator('input[type=file]')
    await files.setInputFiles({ name: 'notes.txt', mimeType: 'text/plain', buffer: Buffer.from('no PEM') })
    await dialog.getByText('notes.txt has no certificate and no private key in PEM.').waitFor()
    await page.route('**/dashboard/api/**', (route) => route.abort())
    await dialog.getByRole('button', { name: 'Upload certificate' }).click()
    await dialog.getByText('The server cannot be reached. Try again when it is back.').waitFor()
    await page.unroute('**/dashboard/api/**')
    // The browser itself logs requests without a response. The test expects these.
    dashboard.pageErrors.splice(0)
    await files.setInputFiles({ name: 'disk.img', mimeType: 'text/plain', buffer: Buffer.alloc(1_000_001) })
    await dialog.getByText('disk.img is too large to be a certificate or a private key.').waitFor()
    const both = Buffer.from(certificate + other.private_key)
    await files.setInputFiles({ name: 'both.pem', mimeType: 'text/plain', buffer: both })
    await expect.poll(() => dialog.getByLabel('Private key').inputValue()).toContain('PRIVATE KEY')
    await dialog.getByRole('button', { name: 'Upload certificate' }).click()
    await dialog.getByText('is not the private key of the certificate').waitFor()
    expect(await dialog.getByLabel('Private key').getAttribute('aria-invalid')).toBe('true')
    expect(await problemsOfDialog(page)).toEqual([])
    await dialog.getByLabel('Private key').fill(private_key)
    await dialog.getByRole('button', { name: 'Upload certificate' }).click()
    await page.getByRole('row', { name: /^www\.example\.org, \*\.example\.org / }).waitFor()
    await page.getByText('89 days left').last().waitFor()
    await dialog.waitFor({ state: 'detached' })
    expect(await page.content()).not.toContain('PRIVATE KEY')
    await page.getByRole('button', { name: 'Actions for www.example.org' }).click()
    await page.getByRole('menuitem', { name: 'Remove' }).click()
    await dialog.getByText('It is not shown any more at once').waitFor()
    await dialog.getByRole('button', { name: 'Remove certificate' }).click()
    await page.getByText('No certificates').waitFor()
  })

  it('are renewed and revoked after a question', async () => {
    await obtained('quiet.example.com')
    await using given = await signedIn()
    const { page } = given
    await open(page, path)
    const row = page.getByRole('row', { name: /^quiet\.example\.com Test Authority valid / })
    await row.getByText('60 days left').last().waitFor()
    await row.getByText('in 3 days').waitFor()
    await row.getByRole('button', { name: 'Actions for quiet.example.com' }).click()
    await page.getByRole('menuitem', { name: 'Renew' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Renew certificate' }).click()
    await row.getByText('just now').waitFor()
    await row.getByRole('button', { name: 'Actions for quiet.example.com' }).click()
    await page.getByRole('menuitem', { name: 'Revoke' }).click()
    await page.getByRole('dialog').getByText('a private key that others may have').waitFor()
    await page.getByRole('dialog').getByRole('button', { name: 'Revoke certificate' }).click()
    await page.getByText('To be revoked when another certificate has replaced it.').waitFor()
    expect(await page.getByRole('button', { name: 'Actions for quiet.example.com' }).count()).toBe(0)
    await database.query(
      "update certificates set revoked_at = now(), private_key = null where names = array['quiet.example.com']",
      [],
    )
    await page.getByRole('row', { name: /^quiet\.example\.com Test Authority revoked / }).waitFor()
    expect(await page.getByText('To be revoked').count()).toBe(0)
  })

  it('that are in danger are on the overview of their project', async () => {
    await using given = await signedIn()
    const { page } = given
    await open(page, `/projects/${projectId}`)
    await page.getByText('Apps', { exact: true }).first().waitFor()
    expect(await page.getByRole('region', { name: 'Certificates in danger' }).count()).toBe(0)
    await obtained('danger.example.com', { days: 6, failures: 2 })
    const panel = page.getByRole('region', { name: 'Certificates in danger' })
    await panel.getByText(failure.message).waitFor()
    await panel.getByText('6 days left').waitFor()
    expect(await problemsOfPage(page)).toEqual([])
    await panel.getByRole('link', { name: 'danger.example.com' }).click()
    await page.getByRole('heading', { name: "The app's own address" }).waitFor()
    await open(page, path)
    await page.getByRole('row', { name: /^danger\.example\.com .* failing / }).waitFor()
  })

  it('appear on the page, even hundreds of them, on a desktop and on a phone', async () => {
    for (let made = 0; made < 70; made++) {
      await obtained(`a-rather-long-name-${made}.of-a-branch.shop.example.com`, { days: made })
    }
    const names = Array.from({ length: 30 }, (_, index) => `shop-${index}.example.net`)
    const { certificate, private_key } = await uploadOf({ names })
    await client.certificates.create({ body: { certificate, private_key } })
    await using given = await signedIn({ viewport: { width: 1280, height: 800 } })
    const { page } = given
    let requests = 0
    page.on('request', (request) => {
      if (new URL(request.url()).pathname.startsWith('/dashboard/api/')) requests += 1
    })
    await open(page, path)
    const rows = page.getByRole('table', { name: 'Certificates' }).getByRole('row')
    await expect.poll(() => rows.count()).toBe(51)
    expect(requests).toBeLessThanOrEqual(6)
    await page.getByText(`${names.slice(0, 5).join(', ')} and 25 more`, { exact: true }).waitFor()
    await page.getByRole('button', { name: 'Show older certificates' }).click()
    await expect.poll(() => rows.count()).toBeGreaterThan(71)
    expect(await problemsOnDeskAndPhone(page)).toEqual([])
  })

  it('cause no errors and no requests to other origins', () => {
    expect(dashboard.pageErrors).toEqual([])
  })
})
