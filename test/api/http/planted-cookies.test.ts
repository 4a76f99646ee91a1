import { createDashboardClient } from '@fairlead/server/dashboard-client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type SignedInBrowser, type TestServer, testServer } from '../../harness/server.ts'

// A page of an app on another port of this host cannot read the dashboard's cookie. But it can set a cookie with the
// same name under a longer path (`document.cookie`), which browsers send first.
let server: TestServer
let user: SignedInBrowser
beforeAll(async () => {
  server = await testServer()
  user = await server.signIn()
})
afterAll(() => server[Symbol.asyncDispose]())

/** Returns the dashboard client of a page that keeps the user's secret, in a browser that sends these cookies. */
const withCookies = (owner: SignedInBrowser, ...cookies: string[]) =>
  createDashboardClient({
    baseUrl: `${server.url}/dashboard/api`,
    fetch: (target, init) => {
      const headers = new Headers(init?.headers)
      headers.set('sec-fetch-site', 'same-origin')
      headers.set('cookie', cookies.join('; '))
      headers.set('x-fairlead-session', owner.kept().secret)
      return fetch(target, { ...init, headers })
    },
  })

describe('a cookie that an app has set', () => {
  it('does not sign a user out', async () => {
    const planted = ['fairlead_session=planted', 'fairlead_session=', 'theme=dark']
    const session = await withCookies(user, ...planted, user.cookie()).session.get()
    expect(session.user.email).toBe(user.email)
  })

  it("does not put a user into another user's session", async () => {
    const attacker = await server.signIn()
    const session = await withCookies(user, attacker.cookie(), user.cookie()).session.get()
    expect(session.user.email).toBe(user.email)
  })

  it('does not prolong a session that the user has ended', async () => {
    const leaving = await server.signIn()
    await withCookies(leaving, 'fairlead_session=planted', leaving.cookie()).session.delete()
    await expect(leaving.dashboard.session.get()).rejects.toMatchObject({ status: 401 })
  })

  it('causes only a few queries', async () => {
    const many = Array.from({ length: 200 }, (_, i) => `fairlead_session=planted${i}`)
    expect((await withCookies(user, ...many, user.cookie()).session.get()).user.email).toBe(user.email)
  })
})
