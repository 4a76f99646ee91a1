import { describe, expect, it } from 'vitest'
import { createReceiver, type DedupeStore, type ReceiverError } from '../../../receiver/src/index.ts'
import { signWebhook } from '../../../receiver/src/testing.ts'
import { clock, SECRET } from '../../harness/receiver/support.ts'

/** Returns the answer of a receiver with this handler of `ping`, and the causes passed to `onError`. */
async function answered(handler: () => unknown, dedupe?: DedupeStore) {
  const causes: unknown[] = []
  const onError = ({ cause }: ReceiverError) => void causes.push(cause)
  const receiver = createReceiver({ secrets: [SECRET], clock, onError, ...(dedupe && { dedupe }) })
  receiver.on('ping', handler as () => void)
  const { headers, body } = signWebhook({ event: 'ping', data: { webhook_id: 'wh_1' }, secret: SECRET, clock })
  return { status: (await receiver.receive(headers, body)).status, causes }
}

describe('a handler', () => {
  it.each([undefined, null, 'text', 0, Symbol('s'), 1n])('that throws %s has failed', async (thrown) => {
    const throws = () => {
      throw thrown
    }
    expect(await answered(throws)).toEqual({ status: 500, causes: [thrown] })
    expect(await answered(async () => throws())).toEqual({ status: 500, causes: [thrown] })
  })

  it('that returns a function with a `then` is awaited', async () => {
    const failure = new Error('too late')
    const query = Object.assign(() => undefined, {
      // biome-ignore lint/suspicious/noThenProperty: the test is about it.
      then: (_: unknown, reject: (why: Error) => void) => reject(failure),
    })
    expect(await answered(() => query)).toEqual({ status: 500, causes: [failure] })
  })
})

it('a store whose release returns nothing, or throws, does not hide the handler’s failure', async () => {
  const failure = new Error('no')
  const fails = () => Promise.reject(failure)
  const storeWith = (release: () => unknown) =>
    ({ claim: async () => ({ state: 'claimed', commit: async () => undefined, release }) }) as unknown as DedupeStore
  expect(
    await answered(
      fails,
      storeWith(() => undefined),
    ),
  ).toEqual({ status: 500, causes: [failure] })
  const throws = () => {
    throw new Error('the store is away')
  }
  expect(await answered(fails, storeWith(throws))).toEqual({ status: 500, causes: [failure] })
})
