import { expect } from 'vitest'
import { attacks } from '../../harness/attacks/attack.ts'
import { newUser, setupToken } from './users.ts'

attacks({}, (attack) => {
  attack(
    { id: 'other-project', topic: 'Files', held: 'A key reads no project of another account' },
    async ({ attacker, victim }) => {
      await expect(attacker.client.projects.get({ params: { project_id: victim.project } })).rejects.toMatchObject({
        code: 'not_found',
      })
    },
  )

  attack(
    {
      id: 'sign-in-lockout',
      topic: 'Sessions',
      held: 'Wrong sign-ins from an app on the machine lock out no browser in which the user has signed in before',
    },
    async (server) => {
      const { user, browser } = await newUser(server)
      const { url } = server.server
      const attempt = (email: string) =>
        fetch(`${url}/dashboard/api/session`, {
          method: 'POST',
          headers: { 'content-type': 'application/json', 'sec-fetch-site': 'same-origin', ...browserHeaders(browser) },
          body: JSON.stringify({ email, password: 'a wrong password' }),
        })
      const targeted = await Promise.all(Array.from({ length: 25 }, () => attempt(user.email)))
      await Promise.all(Array.from({ length: 30 }, (_, at) => attempt(`nobody${at}@example.com`)))
      expect(targeted.filter(({ status }) => status === 429)).not.toHaveLength(0)
      const { user: back } = await browser.signIn(user)
      expect(back.email).toBe(user.email)
      // It does not lock out a new user, either.
      const { browser: other } = await newUser(server)
      expect((await other.dashboard.session.get()).user.email).not.toBe(user.email)
      expect(await setupToken(server, null)).not.toBe('')
    },
  )
})

/** The cookies that an app on another port receives from the browser. */
const browserHeaders = (browser: { cookie(): string }) => ({ cookie: browser.cookie() })
