import { join } from 'node:path'
import type { Browser, BrowserContext, BrowserContextOptions, Page } from 'playwright-core'
import { browser as fetchBrowser, type Browser as SignedInBrowser } from './browser.ts'
import { launchChromium } from './chromium.ts'
import { type ServerProcess, serverProcess } from './process.ts'
import { temporaryDirectory } from './temporary.ts'

export const user = { email: 'operator@example.com', password: 'correct horse battery staple' }

/** Something that a page must never do: log an error, break its content security policy, or contact another origin. */
export interface PageError {
  readonly page: string
  readonly text: string
}

export interface Dashboard extends AsyncDisposable {
  readonly server: ServerProcess
  readonly dataDirectory: string
  readonly chromium: Browser
  /** The errors of all pages so far. */
  readonly pageErrors: PageError[]
  /** The setup link that the server logged at its first start. */
  setupLink(): Promise<string>
  /** Creates the first user by that link, through the API. */
  makeUser(): Promise<SignedInBrowser>
  /** Opens a browser window without cookies. */
  context(options?: BrowserContextOptions): Promise<BrowserContext>
  /** Opens a window in which the user is signed in, through the API, on pages of this origin; by default the server's. */
  signedIn(
    options?: BrowserContextOptions,
    origin?: string,
  ): Promise<{ context: BrowserContext; page: Page; api: SignedInBrowser }>
}

/** Starts a real server with a database of its own, and a Chromium. */
export async function openDashboard(environment: Readonly<Record<string, string>> = {}): Promise<Dashboard> {
  await using cleanup = new AsyncDisposableStack()
  const directory = cleanup.use(await temporaryDirectory())
  const dataDirectory = join(directory.path, 'data')
  const server = cleanup.use(await serverProcess(dataDirectory, environment))
  const chromium = await launchChromium()
  cleanup.defer(() => chromium.close())
  const pageErrors: PageError[] = []

  const setupLink: Dashboard['setupLink'] = async () => {
    await server.waitForLog((line) => 'link' in line)
    return String(server.log.find((line) => 'link' in line)?.['link'])
  }
  const makeUser: Dashboard['makeUser'] = async () => {
    const browser = fetchBrowser(server.url)
    const token = new URL(await setupLink()).hash.slice(1)
    await browser.dashboard.setup.complete({ body: { token, ...user } })
    return browser
  }
  const context: Dashboard['context'] = async (options) => {
    const made = await chromium.newContext({ reducedMotion: 'reduce', ...options })
    made.on('page', (page) => collectErrors(page, server.url, pageErrors))
    return made
  }
  const owned = cleanup.move()
  return {
    server,
    dataDirectory,
    chromium,
    pageErrors,
    setupLink,
    makeUser,
    context,
    async signedIn(options, origin = server.url) {
      const api = fetchBrowser(server.url)
      await api.dashboard.session.create({ body: user })
      const [name = '', value = ''] = api.cookie().split('=')
      const { secret, device = '' } = api.kept()
      const cookie = { name, value, domain: new URL(origin).hostname, path: '/', expires: -1 }
      const localStorage = [
        { name: 'fairlead-session', value: secret },
        { name: 'fairlead-device', value: device },
      ]
      const storageState = {
        cookies: [{ ...cookie, httpOnly: true, secure: false, sameSite: 'Strict' as const }],
        origins: [{ origin: new URL(origin).origin, localStorage }],
      }
      const made = await context({ ...options, storageState })
      return { context: made, page: await made.newPage(), api }
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

function collectErrors(page: Page, origin: string, pageErrors: PageError[]): void {
  const report = (text: string) => pageErrors.push({ page: page.url(), text })
  page.on('pageerror', (error) => report(String(error)))
  page.on('console', (message) => {
    // The browser itself logs responses with an error status. The page shows them as well.
    // A browser on the server's own machine ends its requests when the network of an app comes or goes; pages ask again.
    const expected =
      /^Failed to load resource: (the server responded with a status of 4|net::ERR_NETWORK_CHANGED)/.test(
        message.text(),
      )
    if ((message.type() === 'error' || message.type() === 'warning') && !expected) report(message.text())
  })
  page.on('request', (request) => {
    const url = request.url()
    if (page.url().startsWith(origin) && !/^(blob|data):/.test(url) && new URL(url).origin !== origin) report(url)
  })
}
