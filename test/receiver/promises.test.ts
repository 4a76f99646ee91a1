import { afterEach, describe, expect, it } from 'vitest'
import { createReceiver, type ReceiverOptions } from '../../receiver/src/index.ts'
import { signWebhook } from '../../receiver/src/testing.ts'
import { clock, SECRET } from './support.ts'

/** What a receiver answers to `ping`, and the data that its handler was given. */
async function answered(options: object) {
  const handled: unknown[] = []
  const receiver = createReceiver({ secrets: [SECRET], clock, onError: () => undefined, ...options } as ReceiverOptions)
  receiver.on('*', ({ data }) => void handled.push(data))
  const { headers, body } = signWebhook({ event: 'invoice.paid', data: { amount: 7 }, secret: SECRET, clock })
  const answer = await receiver.receive(headers, body)
  return { status: answer.status, body: answer.body, handled }
}

/** What `await` waits for though it is no `Promise`, and which does not chain. */
const thenable = (settled: unknown, failed?: Error) => ({
  // biome-ignore lint/suspicious/noThenProperty: it is what is tested.
  then: (resolve: (value: unknown) => void, reject: (why: unknown) => void) =>
    void (failed ? reject(failed) : resolve(settled)),
})
const schemaOf = (validate: () => unknown) => ({
  events: { 'invoice.paid': { '~standard': { version: 1, vendor: 'test', validate } } },
})

describe('a schema that answers with a promise of its own kind', () => {
  it('is waited for', async () => {
    const { status, handled } = await answered(schemaOf(() => thenable({ value: { amount: 8 } })))
    expect([status, handled]).toEqual([200, [{ amount: 8 }]])
  })

  it('has its refusal heard', async () => {
    const { status, handled } = await answered(schemaOf(() => thenable({ issues: [{ message: 'no' }] })))
    expect([status, handled]).toEqual([400, []])
  })

  it('may fail', async () => {
    const { status, handled } = await answered(schemaOf(() => thenable(undefined, new Error('away'))))
    expect([status, handled]).toEqual([500, []])
  })
})

describe('where a library has replaced `Promise`', () => {
  const original = globalThis.Promise
  afterEach(() => {
    globalThis.Promise = original
  })
  const replaced = (options: object) => {
    globalThis.Promise = class extends original<unknown> {} as PromiseConstructor
    return answered(options)
  }

  it('secrets are waited for', async () => {
    const { status } = await replaced({ secrets: async () => [SECRET], ...schemaOf(() => ({ value: {} })) })
    expect(status).toBe(200)
  })

  it('an event that could not be queued is not acknowledged', async () => {
    const enqueue = () => original.reject(new Error('full'))
    const { status, body } = await replaced({ ack: 'enqueue', enqueue, ...schemaOf(() => ({ value: {} })) })
    expect([status, body]).toEqual([500, { error: expect.objectContaining({ code: 'enqueue_failed' }) }])
  })

  it('an unknown event whose hook fails is not acknowledged', async () => {
    const { status, body } = await replaced({ onUnknown: () => original.reject(new Error('away')) })
    expect([status, body]).toEqual([500, { error: expect.objectContaining({ code: 'handler_failed' }) }])
  })
})
