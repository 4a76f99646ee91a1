import { join } from 'node:path'
import type { Browser, BrowserContext, BrowserContextOptions, Page } from 'playwright-core'
import { browser as fetchBrowser, type Browser as SignedInBrowser } from './browser.ts'
import { launchChromium } from './chromium.ts'
import { type ServerProcess, serverProcess } from './process.ts'
import { temporaryDirectory } from './temporary.ts'

export const user: User = { email: 'operator@example.com', password: 'correct horse battery staple' }

export interface User {
  readonly email: string
  readonly password: string
}

/**
 * An error that no page may cause: a logged error, a violation of its content security policy, or a request to another
 * origin.
 */
export interface PageError {
  readonly page: string
  readonly text: string
}

/** Chromium windows on the pages of a server. */
export interface Windows {
  readonly chromium: Browser
  readonly pageErrors: PageError[]
  context(options?: BrowserContextOptions): Promise<BrowserContext>
  /**
   * Opens a window on pages of this origin, by default the server's, and signs in through the API. All windows share
   * one session.
   */
  signedIn(
    options?: BrowserContextOptions,
    origin?: string,
  ): Promise<{ context: BrowserContext; page: Page; api: SignedInBrowser }>
}

export interface Dashboard extends Windows, AsyncDisposable {
  readonly server: ServerProcess
  readonly dataDirectory: string
  /** The setup link that the server logged at its first start. */
  setupLink(): Promise<string>
  /** Creates the first user by the setup link, through the API. */
  makeUser(): Promise<SignedInBrowser>
}

/**
 * Starts a real server. It makes a database unless the environment names one.
 *
 * @param open opens a Chromium, which is closed with the dashboard
 */
export async function openDashboard(
  environment: Readonly<Record<string, string>> = {},
  open: () => Promise<Browser> = launchChromium,
): Promise<Dashboard> {
  await using cleanup = new AsyncDisposableStack()
  const directory = cleanup.use(await temporaryDirectory())
  const dataDirectory = join(directory.path, 'data')
  const server = cleanup.use(await serverProcess(dataDirectory, environment))
  const chromium = await open()
  cleanup.defer(() => chromium.close())

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
  const owned = cleanup.move()
  return {
    server,
    dataDirectory,
    setupLink,
    makeUser,
    ...windows(chromium, server.url, user),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

/** Opens Chromium windows on the pages of the server at this address, for this user. */
export function windows(chromium: Browser, url: string, user: User): Windows {
  const pageErrors: PageError[] = []
  const context: Windows['context'] = async (options) => {
    const made = await chromium.newContext({ reducedMotion: 'reduce', ...options })
    made.on('page', (page) => collectErrors(page, url, pageErrors))
    return made
  }
  let last: SignedInBrowser | null = null
  /** Signs in only when the last session has ended: the password check takes much of the time of a window. */
  const session = async () => {
    const isValid = last !== null && (await last.dashboard.session.get().then(Boolean, () => false))
    if (last !== null && isValid) return last
    last = fetchBrowser(url)
    await last.dashboard.session.create({ body: user })
    return last
  }
  return {
    chromium,
    pageErrors,
    context,
    async signedIn(options, origin = url) {
      const api = await session()
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
  }
}

function collectErrors(page: Page, origin: string, pageErrors: PageError[]): void {
  const report = (text: string) => pageErrors.push({ page: page.url(), text })
  page.on('pageerror', (error) => report(String(error)))
  page.on('console', (message) => {
    // Chromium itself logs responses with an error status. The page shows them as well.
    const expected = /^Failed to load resource: the server responded with a status of 4/.test(message.text())
    if ((message.type() === 'error' || message.type() === 'warning') && !expected) report(message.text())
  })
  page.on('request', (request) => {
    const url = request.url()
    if (page.url().startsWith(origin) && !/^(blob|data):/.test(url) && new URL(url).origin !== origin) report(url)
  })
}
