import fc from 'fast-check'
import { Webhook as StandardWebhook } from 'standardwebhooks'
import { Webhook as SvixWebhook } from 'svix'
import { describe, expect, it } from 'vitest'
import { createReceiver, generateSecret } from '../../../receiver/src/index.ts'
import { signWebhook } from '../../../receiver/src/testing.ts'
import { codeOfAsync } from '../../harness/receiver/support.ts'

/** Signed with the current time, because the other libraries use the real clock. */
const anyWebhook = fc.record({
  id: fc.stringMatching(/^[\w-]{1,40}$/),
  event: fc.string({ minLength: 1, unit: 'grapheme' }),
  data: fc.dictionary(fc.string({ unit: 'grapheme' }), fc.jsonValue({ noUnicodeString: false })),
})

const events = 1000

describe.each([
  ['standardwebhooks', StandardWebhook],
  ['svix', SvixWebhook],
] as const)('%s', (_, Webhook) => {
  const secret = generateSecret()
  const other = generateSecret()
  const theirs = new Webhook(secret)
  const theirOther = new Webhook(other)

  it(`accepts webhooks that are signed here, and none with another secret, over ${events} events`, () => {
    fc.assert(
      fc.property(anyWebhook, ({ id, event, data }) => {
        const { headers, body } = signWebhook({ id, event, data, secret })
        const bytes = Buffer.from(body)
        expect(() => theirs.verify(bytes, headers)).not.toThrow()
        expect(() => theirOther.verify(bytes, headers)).toThrow()
      }),
      { numRuns: events },
    )
  })

  it(`signs webhooks that are accepted here, and none with another secret, over ${events} events`, async () => {
    const receiver = createReceiver({ secrets: [secret] })
    await fc.assert(
      fc.asyncProperty(anyWebhook, async ({ id, event, data }) => {
        const now = new Date()
        const text = JSON.stringify({ event: `random ${event}`, timestamp: now.toISOString(), data })
        const headersOf = (signature: string) => ({
          'webhook-id': id,
          'webhook-timestamp': String(Math.floor(now.getTime() / 1000)),
          'webhook-signature': signature,
        })
        const body = Buffer.from(text)
        const verified = await receiver.verify(headersOf(theirs.sign(id, now, text)), body)
        expect(verified).toEqual({ known: false, event: { id, ...JSON.parse(text) }, secretIndex: 0 })
        expect(await codeOfAsync(receiver.verify(headersOf(theirOther.sign(id, now, text)), body))).toBe(
          'no_matching_signature',
        )
      }),
      { numRuns: events },
    )
  })
})
