import type { Page } from 'playwright-core'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { Browser } from '../harness/browser.ts'
import { chromiumPath, noChromium } from '../harness/chromium.ts'
import { type Dashboard, openDashboard } from '../harness/dashboard.ts'
import { freePort } from '../harness/ports.ts'
import { type Relay, relay } from '../harness/relay.ts'
import { filesOnDisk } from '../harness/storage.ts'

if (chromiumPath === undefined) noChromium('uploads that are canceled, or whose connection is lost')

const file = { name: 'film.bin', mimeType: 'application/octet-stream', buffer: Buffer.alloc(20_000_000, 7) }

/** Takes minutes for the file, so that whatever a test does with it is done on its way. */
const slow = { offline: false, latency: 0, downloadThroughput: -1, uploadThroughput: 100_000 }
const quick = { ...slow, uploadThroughput: -1 }

describe.skipIf(chromiumPath === undefined)('an upload', () => {
  let dashboard: Dashboard
  let api: Browser
  let page: Page
  let projectId: string
  /** The browser's way to the server. */
  let way: Relay
  let network: (conditions: typeof slow) => Promise<void>

  beforeAll(async () => {
    dashboard = await openDashboard()
    api = await dashboard.makeUser()
    projectId = (await api.client.projects.create({ body: { name: 'Films' } })).id
    const { hostname, port } = new URL(dashboard.server.url)
    way = await relay({ host: hostname, port: Number(port) }, { host: hostname, port: await freePort() })
  })
  afterAll(async () => {
    await way[Symbol.asyncDispose]()
    await dashboard[Symbol.asyncDispose]()
  })

  beforeEach(async () => {
    const opened = await dashboard.signedIn()
    page = opened.page
    page.setDefaultTimeout(60_000)
    const devtools = await opened.context.newCDPSession(page)
    await devtools.send('Network.enable')
    network = async (conditions) => void (await devtools.send('Network.emulateNetworkConditions', conditions))
    const address = new URL(`/projects/${projectId}/storage`, dashboard.server.url)
    address.port = String(way.port)
    await page.goto(address.href)
    await page.getByText('No file yet').waitFor()
    return () => opened.context.close()
  })

  const files = async () => (await api.client.storage.list({ params: { project_id: projectId } })).files
  const onDisk = () => filesOnDisk(dashboard.dataDirectory)

  /** Resolves when a part of the file is on the server's disk. */
  const beginSlowly = async () => {
    await network(slow)
    await page.getByLabel('Drop files here, or choose them').setInputFiles(file)
    await page.getByRole('button', { name: 'Cancel film.bin' }).waitFor()
    await expect.poll(onDisk).not.toEqual([])
  }

  it('that is canceled on its way leaves nothing on the server', async () => {
    await beginSlowly()
    await page.getByRole('button', { name: 'Cancel film.bin' }).click()
    await page.getByRole('button', { name: 'Cancel film.bin' }).waitFor({ state: 'detached' })
    await expect.poll(onDisk).toEqual([])
    expect(await files()).toEqual([])
    expect(await page.getByText('film.bin').count()).toBe(0)
    expect(await page.getByText('No file yet').isVisible()).toBe(true)
  })

  it('whose connection is lost says so, leaves nothing, and can be tried again', async () => {
    await beginSlowly()
    await way.cut()
    const alert = page
      .getByRole('alert')
      .filter({ hasText: 'The connection was lost before the whole file was there.' })
    await alert.waitFor()
    await expect.poll(onDisk).toEqual([])
    await way.restore()
    await network(quick)
    await alert.getByRole('button', { name: 'Try again' }).click()
    await page.getByRole('link', { name: 'film.bin' }).waitFor()
    expect(await alert.count()).toBe(0)
    expect(await files()).toMatchObject([{ name: 'film.bin', size: file.buffer.length }])
    // The browser itself tells the console of a server that is away.
    expect(dashboard.complaints.filter(({ text }) => !text.includes('net::ERR_'))).toEqual([])
  })
})
