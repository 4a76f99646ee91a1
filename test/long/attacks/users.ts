import { randomUUID } from 'node:crypto'
import type { Browser as Chromium } from 'playwright-core'
import { expect } from 'vitest'
import type { HostileServer } from '../../harness/attacks/server.ts'
import { type Browser, browser } from '../../harness/browser.ts'
import { signInOn } from '../../harness/chromium.ts'

/** Returns the token of a new setup link for an account; by default the operator's account. */
export async function setupToken({ command }: HostileServer, account: string | null): Promise<string> {
  const given = account === null ? [] : ['--account', account]
  const { code, stdout, stderr } = await command('users', 'setup-link', ...given)
  expect(code, stderr).toBe(0)
  return new URL(stdout.trim()).hash.slice(1)
}

interface NewUser {
  readonly user: { readonly email: string; readonly password: string }
  /** The browser in which the user has signed in. */
  readonly browser: Browser
}

/** Makes a user through the API. */
export async function newUser(server: HostileServer, account: string | null = null): Promise<NewUser> {
  const user = { email: `${randomUUID()}@example.com`, password: 'correct horse battery staple' }
  const opened = browser(server.server.url)
  await opened.dashboard.setup.complete({ body: { token: await setupToken(server, account), ...user } })
  return { user, browser: opened }
}

/** Makes a user of the operator's account, and opens a Chromium window in which this user signs in on the page. */
export async function signedInPage(chromium: Chromium, server: HostileServer) {
  const { user } = await newUser(server)
  const context = await chromium.newContext()
  const page = await context.newPage()
  await page.goto(`${server.server.url}/sign-in`)
  await signInOn(page, user)
  return { user, context, page }
}
