import { tmpdir } from 'node:os'
import { describe, expect, it } from 'vitest'
import { startChallengeDns } from '../../harness/challenge-dns.ts'
import { chromiumPath, launchChromium, signInOn } from '../../harness/chromium.ts'
import { openPage } from '../../harness/dashboard/pages.ts'
import { noCaddy } from '../../harness/edge.ts'
import { dashboardHost, edgeSettings } from '../../harness/edge-server.ts'
import { skipped } from '../../harness/ordinary-user.ts'
import { noPebble, startPebble } from '../../harness/pebble.ts'
import { freePort } from '../../harness/ports.ts'
import { fairlead } from '../../harness/process.ts'
import { ownServerWithProject } from '../../harness/project.ts'

const noBrowser = chromiumPath === undefined ? 'no Chromium is installed (apt-get install chromium)' : null
const why = noBrowser ?? (await noCaddy()) ?? (await noPebble())
if (why !== null) skipped('the dashboard over HTTPS', why)

/** Starts a server with a domain whose names all lead to this machine, with a separate authority. */
async function serverWithHttps() {
  await using cleanup = new AsyncDisposableStack()
  const settings = await edgeSettings()
  const dns = cleanup.use(await startChallengeDns())
  const dnsServer = `127.0.0.1:${dns.port}`
  const ports = { httpPort: settings.httpPort, tlsPort: await freePort() }
  const pebble = cleanup.use(await startPebble({ ...ports, dnsServer, lifetimeSeconds: 90 * 24 * 60 * 60 }))
  const given = cleanup.use(
    await ownServerWithProject({
      ...{ FAIRLEAD_FILE_SOURCES: tmpdir(), FAIRLEAD_OUTBOUND: 'any', ...settings.environment },
      FAIRLEAD_ACME_URL: pebble.directoryUrl,
      FAIRLEAD_ACME_CA: pebble.caFile,
      FAIRLEAD_DNS_SERVERS: dnsServer,
    }),
  )
  const owned = cleanup.move()
  return { ...given, httpsPort: settings.httpsPort, [Symbol.asyncDispose]: () => owned.disposeAsync() }
}

describe.skipIf(why !== null)('the dashboard over HTTPS', { timeout: 180_000 }, () => {
  it('adds a domain, and shows that it is served and its certificate, without a reload', async () => {
    await using cleanup = new AsyncDisposableStack()
    const given = cleanup.use(await serverWithHttps())
    expect((await given.deploy('shop')).status).toBe('running')
    const chromium = await launchChromium(['--host-resolver-rules=MAP * 127.0.0.1'])
    cleanup.defer(() => chromium.close())
    const page = await (await chromium.newContext({ reducedMotion: 'reduce', ignoreHTTPSErrors: true })).newPage()
    page.setDefaultTimeout(60_000)
    const user = await given.server.signIn()
    const origin = `https://${dashboardHost}:${given.httpsPort}`
    // The first visitor of the dashboard may come before its certificate.
    await expect
      .poll(() =>
        page.goto(`${origin}/sign-in`).then(
          () => true,
          () => false,
        ),
      )
      .toBe(true)
    await signInOn(page, user)

    const { id } = await given.appNamed('shop')
    await openPage(page, `${origin}/projects/${given.projectId}/apps/${id}/domains`)
    await page.getByRole('button', { name: 'Add a domain' }).click()
    await page.getByRole('dialog').getByLabel('Name').fill('www.customer.com')
    await page.getByRole('dialog').getByRole('button', { name: 'Add domain' }).click()
    await page.getByText('active', { exact: true }).waitFor()
    await page.getByText('89 days left').waitFor()
    await page.getByText('get the app: the primary domain').waitFor()
    await page.goto(`${origin}/settings/certificates`)
    await page.getByRole('row', { name: /^www\.customer\.com .*Pebble.* valid / }).waitFor()
    await page.goto(`https://www.customer.com:${given.httpsPort}/`)
    await page.getByText('here').waitFor()

    const environment = { FAIRLEAD_URL: given.server.url, FAIRLEAD_API_KEY: given.server.apiKey }
    const added = await fairlead(['domains', 'add', 'shop', 'customer.com', '--redirect', '--wait'], environment)
    expect(added).toMatchObject({ code: 0, stdout: expect.stringContaining(`https://customer.com:${given.httpsPort}`) })
    await page.goto(`https://customer.com:${given.httpsPort}/path?query`)
    expect(page.url()).toBe(`https://www.customer.com:${given.httpsPort}/path?query`)
  })
})
