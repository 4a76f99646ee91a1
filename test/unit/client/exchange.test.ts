import { createKeyExchange, type ShortLivedKey } from '@fairlead/server/exchange'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'

const address = 'https://fairlead.example.com'

/** An exchange whose server gives the first key at once, and later keys when the test releases them. */
function exchangeWithHeldKeys({ lifeMs }: { readonly lifeMs: number }) {
  const keys: ShortLivedKey[] = []
  const held: (() => void)[] = []
  let asked = 0
  const exchange = createKeyExchange({
    address,
    projectId: 'proj_1',
    requestToken: async () => 'of.the.job',
    onKey: (key) => void keys.push(key),
    async fetch() {
      asked += 1
      const number = asked
      if (number > 1) await new Promise<void>((done) => held.push(done))
      const expires_at = new Date(Date.now() + lifeMs).toISOString()
      return Response.json({ api_key: `fl_${number}`, expires_at }, { status: 201 })
    },
  })
  return { exchange, keys, letGo: () => held.splice(0).forEach((done) => void done()), asked: () => asked }
}

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

it('the end of an exchange waits for a requested key, and ends it, too', async () => {
  const { exchange, keys, letGo, asked } = exchangeWithHeldKeys({ lifeMs: 60_000 })
  expect(await exchange.key()).toBe('fl_1')
  await vi.advanceTimersByTimeAsync(30_000)
  expect(asked()).toBe(2)
  const order: string[] = []
  const ended = exchange.end().then(() => order.push(`ended with ${keys.length} keys`))
  order.push('let go')
  letGo()
  await ended
  expect(order).toEqual(['let go', 'ended with 2 keys'])
})

it('an exchange that has ended requests no further key', async () => {
  const { exchange, asked } = exchangeWithHeldKeys({ lifeMs: 60_000 })
  await exchange.key()
  await exchange.end()
  await vi.advanceTimersByTimeAsync(120_000)
  expect(asked()).toBe(1)
})
