import type { Page } from 'playwright-core'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { Browser } from '../../harness/browser.ts'
import { chromiumPath, noChromium } from '../../harness/chromium.ts'
import { ownDashboard } from '../../harness/dashboard/of-run.ts'
import type { Dashboard } from '../../harness/dashboard.ts'
import { freePort } from '../../harness/ports.ts'
import { type Relay, relay } from '../../harness/relay.ts'
import { filesOnDisk } from '../../harness/storage.ts'

if (chromiumPath === undefined) noChromium('uploads that are canceled or lose their connection')

const file = { name: 'film.bin', mimeType: 'application/octet-stream', buffer: Buffer.alloc(20_000_000, 7) }

/** A network that slows the upload to minutes, so that a test can act during the upload. */
const slow = { offline: false, latency: 0, downloadThroughput: -1, uploadThroughput: 100_000 }
const fast = { ...slow, uploadThroughput: -1 }

describe.skipIf(chromiumPath === undefined)('an upload', () => {
  let dashboard: Dashboard
  let api: Browser
  let page: Page
  let projectId: string
  /** The relay between the browser and the server. */
  let connection: Relay
  let network: (conditions: typeof slow) => Promise<void>

  beforeAll(async () => {
    dashboard = await ownDashboard()
    api = await dashboard.makeUser()
    projectId = (await api.client.projects.create({ body: { name: 'Films' } })).id
    const { hostname, port } = new URL(dashboard.server.url)
    connection = await relay({ host: hostname, port: Number(port) }, { host: hostname, port: await freePort() })
  })
  afterAll(async () => {
    await connection?.[Symbol.asyncDispose]()
    await dashboard?.[Symbol.asyncDispose]()
  })

  beforeEach(async () => {
    const address = new URL(`/projects/${projectId}/storage`, dashboard.server.url)
    address.port = String(connection.port)
    const opened = await dashboard.signedIn({}, address.origin)
    page = opened.page
    page.setDefaultTimeout(60_000)
    const devtools = await opened.context.newCDPSession(page)
    await devtools.send('Network.enable')
    network = async (conditions) => void (await devtools.send('Network.emulateNetworkConditions', conditions))
    await page.goto(address.href)
    await page.getByText('No file yet').waitFor()
    return () => opened.context.close()
  })

  const files = async () => (await api.client.storage.list({ params: { project_id: projectId } })).files
  const onDisk = () => filesOnDisk(dashboard.dataDirectory)

  /** Starts an upload. Resolves when a part of the file is on the server's disk. */
  const startSlowly = async () => {
    await network(slow)
    await page.getByLabel('Drop files here, or choose them').setInputFiles(file)
    await page.getByRole('button', { name: 'Cancel film.bin' }).waitFor()
    await expect.poll(onDisk).not.toEqual([])
  }

  it('leaves nothing on the server when it is canceled', async () => {
    await startSlowly()
    await page.getByRole('button', { name: 'Cancel film.bin' }).click()
    await page.getByRole('button', { name: 'Cancel film.bin' }).waitFor({ state: 'detached' })
    await expect.poll(onDisk).toEqual([])
    expect(await files()).toEqual([])
    await expect.poll(() => page.getByText('film.bin').count()).toBe(0)
    await page.getByText('No file yet').waitFor()
  })

  it('leaves nothing on the server when the connection is lost, reports it, and can be retried', async () => {
    await startSlowly()
    await connection.cut()
    const alert = page.getByRole('alert').filter({ hasText: 'The connection was lost before the upload was complete.' })
    await alert.waitFor()
    await expect.poll(onDisk).toEqual([])
    await connection.restore()
    await network(fast)
    await alert.getByRole('button', { name: 'Try again' }).click()
    await page.getByRole('link', { name: 'film.bin' }).waitFor()
    await alert.waitFor({ state: 'detached' })
    expect(await files()).toMatchObject([{ name: 'film.bin', size: file.buffer.length }])
    // The browser itself logs to the console that the server cannot be reached.
    expect(dashboard.pageErrors.filter(({ text }) => !text.includes('net::ERR_'))).toEqual([])
  })
})
