import { join } from 'node:path'
import type { Browser, BrowserContext, BrowserContextOptions, Page } from 'playwright-core'
import { browser as fetchBrowser, type Browser as SignedInBrowser } from './browser.ts'
import { launchChromium } from './chromium.ts'
import { type ServerProcess, serverProcess } from './process.ts'
import { temporaryDirectory } from './temporary.ts'

export const user = { email: 'operator@example.com', password: 'correct horse battery staple' }

/** What a page must never do: write an error to the console, break its policy, or ask another origin. */
export interface Complaint {
  readonly page: string
  readonly text: string
}

export interface Dashboard extends AsyncDisposable {
  readonly server: ServerProcess
  readonly dataDirectory: string
  readonly chromium: Browser
  /** Of all pages that were opened, so far. */
  readonly complaints: Complaint[]
  /** The setup link that the server logged at its first start. */
  setupLink(): Promise<string>
  /** Makes the first user by that link, without the way through the pages. */
  makeUser(): Promise<SignedInBrowser>
  /** Another window without any cookie. */
  context(options?: BrowserContextOptions): Promise<BrowserContext>
  /** A window in which the user is signed in, without the way through the pages. */
  signedIn(options?: BrowserContextOptions): Promise<{ context: BrowserContext; page: Page; api: SignedInBrowser }>
}

/** A real server with a database of its own, and a Chromium that looks at it. */
export async function openDashboard(environment: Readonly<Record<string, string>> = {}): Promise<Dashboard> {
  await using cleanup = new AsyncDisposableStack()
  const directory = cleanup.use(await temporaryDirectory())
  const dataDirectory = join(directory.path, 'data')
  const server = cleanup.use(await serverProcess(dataDirectory, environment))
  const chromium = await launchChromium()
  cleanup.defer(() => chromium.close())
  const complaints: Complaint[] = []

  const setupLink: Dashboard['setupLink'] = async () => {
    await server.waitForLog((line) => 'link' in line)
    return String(server.log.find((line) => 'link' in line)?.['link'])
  }
  const makeUser: Dashboard['makeUser'] = async () => {
    const made = fetchBrowser(server.url)
    const token = new URL(await setupLink()).hash.slice(1)
    await made.dashboard.setup.complete({ body: { token, ...user } })
    return made
  }
  const context: Dashboard['context'] = async (options) => {
    const made = await chromium.newContext({ reducedMotion: 'reduce', ...options })
    made.on('page', (page) => watch(page, server.url, complaints))
    return made
  }
  const owned = cleanup.move()
  return {
    server,
    dataDirectory,
    chromium,
    complaints,
    setupLink,
    makeUser,
    context,
    async signedIn(options) {
      const api = fetchBrowser(server.url)
      await api.dashboard.session.create({ body: user })
      const made = await context(options)
      const [name = '', value = ''] = api.cookie().split('=')
      await made.addCookies([{ name, value, url: server.url, httpOnly: true, sameSite: 'Strict' }])
      return { context: made, page: await made.newPage(), api }
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

function watch(page: Page, origin: string, complaints: Complaint[]): void {
  const complain = (text: string) => complaints.push({ page: page.url(), text })
  page.on('pageerror', (error) => complain(String(error)))
  page.on('console', (message) => {
    // An answer with an error status is told to the console by the browser itself; the page shows it, too.
    const expected = /^Failed to load resource: the server responded with a status of 4/.test(message.text())
    if ((message.type() === 'error' || message.type() === 'warning') && !expected) complain(message.text())
  })
  page.on('request', (request) => {
    const url = request.url()
    if (page.url().startsWith(origin) && !/^(blob|data):/.test(url) && new URL(url).origin !== origin) complain(url)
  })
}
