import { describe, expect, it } from 'vitest'
import { createReceiver, type ReceiverError, type ReceiverOptions } from '../../../receiver/src/index.ts'
import { signWebhook } from '../../../receiver/src/testing.ts'
import { clock, codeOf, SECRET } from '../../harness/receiver/support.ts'

const never = () => new Promise<never>(() => undefined)
const slow = { '~standard': { version: 1, vendor: 'test', validate: never } } as const

/** Returns the answer of a receiver with a deadline of 20 ms, and the errors passed to `onError`. */
async function answered(options: Partial<ReceiverOptions>, event = 'ping', data: object = { webhook_id: 'wh_1' }) {
  const errors: ReceiverError[] = []
  const receiver = createReceiver({
    secrets: [SECRET],
    clock,
    deadline: 0.02,
    onError: (error) => void errors.push(error),
    ...options,
  } as ReceiverOptions)
  const { headers, body } = signWebhook({ event, data, secret: SECRET, clock })
  const answer = await receiver.receive(headers, body)
  return { status: answer.status, code: 'error' in answer.body ? answer.body.error.code : undefined, errors }
}

describe('a webhook is answered although these never settle:', () => {
  it('asynchronous secrets', async () => {
    const { status, code, errors } = await answered({ secrets: never })
    expect([status, code]).toEqual([500, 'deadline_exceeded'])
    expect(errors[0]?.message).toBe('Checking the webhook took longer than 0.02 s.')
  })

  it('an asynchronous schema', async () => {
    const { status, code } = await answered({ events: { 'invoice.paid': slow } as object }, 'invoice.paid', {})
    expect([status, code]).toEqual([500, 'deadline_exceeded'])
  })

  it('`onUnknown`', async () => {
    const { status, code } = await answered({ onUnknown: never }, 'star.born', {})
    expect([status, code]).toEqual([500, 'handler_failed'])
  })

  it('`onError`', async () => {
    const { status, code } = await answered({ onError: never, secrets: () => [] })
    expect([status, code]).toEqual([500, 'invalid_secret'])
  })
})

it('refuses a deadline beyond the range of timers', () => {
  const make = (deadline: number) => codeOf(() => createReceiver({ secrets: [SECRET], deadline }))
  expect(make(Number.MAX_SAFE_INTEGER)).toBe('invalid_option')
  expect(make(2_147_484)).toBe('invalid_option')
  expect(make(2_147_483)).toBeUndefined()
})
