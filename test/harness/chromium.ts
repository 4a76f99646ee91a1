import { existsSync } from 'node:fs'
import { type Browser, type BrowserServer, chromium, type Page } from 'playwright-core'
import { count } from './counts.ts'
import { withoutNetlink } from './without-netlink.ts'

/**
 * The path of the installed Chromium, if any. The headless shell comes first: a window of a full Chromium costs three
 * times its CPU time. `CHROMIUM` names another path.
 */
export const chromiumPath = [
  process.env['CHROMIUM'] ?? '',
  '/usr/bin/chromium-headless-shell',
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
].find((path) => existsSync(path))

const settings = (more: readonly string[]) => {
  if (chromiumPath === undefined) throw new Error('no Chromium is installed: apt-get install chromium-headless-shell')
  return { executablePath: withoutNetlink(chromiumPath), args: ['--no-sandbox', '--disable-dev-shm-usage', ...more] }
}

/**
 * Starts a headless Chromium without its sandbox. The sandbox needs user namespaces, which containers often disallow.
 *
 * @param more further arguments
 */
export async function launchChromium(more: readonly string[] = []): Promise<Browser> {
  return counted(await chromium.launch(settings(more)))
}

/** Starts a Chromium for several processes, which connect to it. */
export const launchChromiumServer = (): Promise<BrowserServer> =>
  chromium.launchServer({ ...settings([]), host: '127.0.0.1' })

/** Connects to the shared Chromium. When a process's connection ends, Chromium closes its windows. */
export const connectChromium = async (address: string): Promise<Browser> => counted(await chromium.connect(address))

function counted(browser: Browser): Browser {
  const newContext = browser.newContext.bind(browser)
  browser.newContext = async (options) => (await newContext(options)).on('page', () => count('pages'))
  return browser
}

/** Signs in on the login page, and resolves when another page is shown. */
export async function signInOn(page: Page, user: { readonly email: string; readonly password: string }): Promise<void> {
  const refusal = page.getByRole('alert')
  // Chromium aborts requests when a network of the machine appears or disappears. A user would try again.
  for (let left = 3; ; left--) {
    await page.getByLabel('E-mail').fill(user.email)
    await page.getByLabel('Password').fill(user.password)
    await page.getByRole('button', { name: 'Sign in' }).click()
    const isRefused = refusal.waitFor().then(
      () => true,
      () => false,
    )
    const isElsewhere = page.waitForURL((url) => !url.pathname.startsWith('/sign-in')).then(() => false)
    if (!(await Promise.race([isRefused, isElsewhere]))) return
    isElsewhere.catch(() => undefined)
    if (left === 0) throw new Error(`signing in was refused: ${await refusal.allTextContents()}`)
    await page.reload()
  }
}

/** Reports which tests are skipped without Chromium. */
export function noChromium(skipped: string): void {
  process.stderr.write(`SKIPPED, no Chromium is installed (apt-get install chromium-headless-shell): ${skipped}\n`)
}
