import { afterEach, describe, expect, it } from 'vitest'
import { createReceiver, type ReceiverOptions } from '../../../receiver/src/index.ts'
import { signWebhook } from '../../../receiver/src/testing.ts'
import { clock, SECRET } from '../../harness/receiver/support.ts'

/** Returns the answer of a receiver to `invoice.paid`, and the data that its handler received. */
async function answered(options: object) {
  const handled: unknown[] = []
  const receiver = createReceiver({ secrets: [SECRET], clock, onError: () => undefined, ...options } as ReceiverOptions)
  receiver.on('*', ({ data }) => void handled.push(data))
  const { headers, body } = signWebhook({ event: 'invoice.paid', data: { amount: 7 }, secret: SECRET, clock })
  const answer = await receiver.receive(headers, body)
  return { status: answer.status, body: answer.body, handled }
}

/** A thenable that is not a `Promise`, and whose `then` returns nothing. */
const thenable = (settled: unknown, failed?: Error) => ({
  // biome-ignore lint/suspicious/noThenProperty: the test is about it.
  then: (resolve: (value: unknown) => void, reject: (why: unknown) => void) =>
    void (failed ? reject(failed) : resolve(settled)),
})
const schemaOf = (validate: () => unknown) => ({
  events: { 'invoice.paid': { '~standard': { version: 1, vendor: 'test', validate } } },
})

describe('a schema that returns a thenable', () => {
  it('is awaited', async () => {
    const { status, handled } = await answered(schemaOf(() => thenable({ value: { amount: 8 } })))
    expect([status, handled]).toEqual([200, [{ amount: 8 }]])
  })

  it('can refuse the data', async () => {
    const { status, handled } = await answered(schemaOf(() => thenable({ issues: [{ message: 'no' }] })))
    expect([status, handled]).toEqual([400, []])
  })

  it('may fail', async () => {
    const { status, handled } = await answered(schemaOf(() => thenable(undefined, new Error('away'))))
    expect([status, handled]).toEqual([500, []])
  })
})

describe('when a library has replaced `Promise`', () => {
  const original = globalThis.Promise
  afterEach(() => {
    globalThis.Promise = original
  })
  const replaced = (options: object) => {
    globalThis.Promise = class extends original<unknown> {} as PromiseConstructor
    return answered(options)
  }

  it('secrets are awaited', async () => {
    const { status } = await replaced({ secrets: async () => [SECRET], ...schemaOf(() => ({ value: {} })) })
    expect(status).toBe(200)
  })

  it('an event whose queueing failed is not acknowledged', async () => {
    const enqueue = () => original.reject(new Error('full'))
    const { status, body } = await replaced({ ack: 'enqueue', enqueue, ...schemaOf(() => ({ value: {} })) })
    expect([status, body]).toEqual([500, { error: expect.objectContaining({ code: 'enqueue_failed' }) }])
  })

  it('an unknown event whose hook fails is not acknowledged', async () => {
    const { status, body } = await replaced({ onUnknown: () => original.reject(new Error('away')) })
    expect([status, body]).toEqual([500, { error: expect.objectContaining({ code: 'handler_failed' }) }])
  })
})
