import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect } from 'vitest'
import { attacks } from '../../harness/attacks/attack.ts'
import { browser as fetchBrowser } from '../../harness/browser.ts'
import { chromiumPath, launchChromium, noChromium } from '../../harness/chromium.ts'
import { newUser, signedInPage } from './users.ts'

if (chromiumPath === undefined) noChromium('attacks on the sessions of a browser')

/** A page of an app on another port of the server's host, and the cookies that it received from browsers. */
async function appOnAnotherPort(answer: (response: ServerResponse) => void) {
  const cookies: string[] = []
  const server = createServer((request, response) => {
    if (request.headers.cookie !== undefined) cookies.push(request.headers.cookie)
    answer(response)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    cookies,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      server.close()
    },
  }
}

/** Requests the signed-in user like the page's scripts, and returns the status. */
const statusOfPage = (page: Page) =>
  page.evaluate(async () => {
    const secret = localStorage.getItem('fairlead-session') ?? ''
    return (await fetch('/dashboard/api/session', { headers: { 'x-fairlead-session': secret } })).status
  })

describe.skipIf(chromiumPath === undefined)('a browser', () => {
  let chrome: Browser
  beforeAll(async () => {
    chrome = await launchChromium()
  })
  afterAll(() => chrome?.close())

  attacks({}, (attack) => {
    attack(
      {
        id: 'stolen-cookie',
        topic: 'Sessions',
        held: 'A session cookie that a browser sends to an app on another port opens nothing',
      },
      async (server) => {
        const { page, context } = await signedInPage(chrome, server)
        await using app = await appOnAnotherPort((response) => response.end('an app'))
        const other = await context.newPage()
        await other.setContent(`<img src="${app.url}x">`)
        await other.goto(app.url)
        await expect.poll(() => app.cookies.join()).toContain('fairlead_session=')
        const headers = { cookie: app.cookies[0] ?? '', 'sec-fetch-site': 'same-origin' }
        const read = await fetch(`${server.server.url}/dashboard/api/session`, { headers })
        const made = await fetch(`${server.server.url}/dashboard/api/api-keys`, {
          method: 'POST',
          headers: { ...headers, 'content-type': 'application/json' },
          body: JSON.stringify({ name: 'stolen', preset: 'full' }),
        })
        expect([read.status, made.status]).toEqual([401, 401])
        expect(await statusOfPage(page)).toBe(200)
        await context.close()
      },
    )

    attack(
      {
        id: 'planted-session',
        topic: 'Sessions',
        held: 'A session cookie that an app on another port sets puts nobody into the session of somebody else',
      },
      async (server) => {
        const { page, context, user } = await signedInPage(chrome, server)
        const attacker = await newUser(server, server.attacker.account)
        await using app = await appOnAnotherPort((response) => {
          response.setHeader('set-cookie', `${attacker.browser.cookie()}; Path=/; HttpOnly`)
          response.end('an app')
        })
        const other = await context.newPage()
        await other.goto(app.url)
        await page.goto(`${server.server.url}/settings/account`)
        await page
          .getByText(/Signed in as|To the dashboard/)
          .first()
          .waitFor()
        expect(await page.content()).not.toContain(attacker.user.email)
        expect(await statusOfPage(page)).toBe(401)
        // The session has ended in this browser, and signing in again works.
        const again = fetchBrowser(server.server.url)
        await again.dashboard.session.create({ body: user })
        await context.close()
      },
    )
  })
})
