import * as v from 'valibot'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { createReceiver, ReceiverError, type Webhook } from '../../../receiver/src/index.ts'
import { signWebhook } from '../../../receiver/src/testing.ts'
import { clock, codeOf, codeOfAsync, SECRET } from '../../harness/receiver/support.ts'

const deployed = { deployment_id: 'dep_1', project_id: 'proj_1', url: 'https://app.example.com' }
const failed = { ...deployed, failure: { stage: 'build', code: 'exit', message: 'npm ended with 1' } }
const signed = (event: string, data: object, id = 'msg_1') => signWebhook({ event, data, id, secret: SECRET, clock })

const options = { secrets: [SECRET], clock }

/** Returns the receiver's answer to a webhook: its status, and the outcome or error code. */
async function answered(receiver: Pick<ReturnType<typeof createReceiver>, 'receive'>, event: string, data: object) {
  const { headers, body } = signed(event, data)
  const answer = await receiver.receive(headers, body)
  return [answer.status, 'outcome' in answer.body ? answer.body.outcome : answer.body.error.code]
}

describe('on', () => {
  it('runs every handler whose name or pattern matches the event', async () => {
    const receiver = createReceiver(options)
    const ran: string[] = []
    receiver.on('deployment.failed', ({ data }) => void ran.push(`failed at ${data.failure.stage}`))
    receiver.on(['deployment.succeeded', 'ping'], ({ event }) => void ran.push(`one of two: ${event}`))
    receiver.on('deployment.*', ({ data }) => void ran.push(`deployment ${data.deployment_id}`))
    receiver.on('*', ({ id }) => void ran.push(`any: ${id}`))
    expect(await answered(receiver, 'deployment.failed', failed)).toEqual([200, 'handled'])
    expect(ran.splice(0)).toEqual(['failed at build', 'deployment dep_1', 'any: msg_1'])
    expect(await answered(receiver, 'ping', { webhook_id: 'wh_1' })).toEqual([200, 'handled'])
    expect(ran.splice(0)).toEqual(['one of two: ping', 'any: msg_1'])
    expect(await answered(receiver, 'database.available', { database_id: 'db_1', project_id: 'p' })).toEqual([
      200,
      'handled',
    ])
    expect(ran).toEqual(['any: msg_1'])
  })

  it('runs a handler once for an event that several of its patterns match', async () => {
    const receiver = createReceiver(options)
    let runs = 0
    receiver.on(['deployment.*', 'deployment.failed'], () => void runs++)
    await answered(receiver, 'deployment.failed', failed)
    expect(runs).toBe(1)
  })

  it('counts any value that a plain JavaScript handler returns as success', async () => {
    const list: string[] = []
    for (const result of [() => list.push('a'), () => null, () => 'text']) {
      const receiver = createReceiver(options)
      receiver.on('ping', result as () => void)
      expect(await answered(receiver, 'ping', { webhook_id: 'wh_1' })).toEqual([200, 'handled'])
    }
  })

  it('runs the other handlers when one fails, and reports the failure', async () => {
    const errors: ReceiverError[] = []
    const receiver = createReceiver({ ...options, onError: (error) => void errors.push(error) })
    let runs = 0
    const failures = [new Error('one'), new Error('two')]
    receiver.on('deployment.failed', () => Promise.reject(failures[0]))
    receiver.on('deployment.*', () => void runs++)
    expect(await answered(receiver, 'deployment.failed', failed)).toEqual([500, 'handler_failed'])
    expect([runs, errors[0]?.cause]).toEqual([1, failures[0]])
    const both = createReceiver({ ...options, onError: (error) => void errors.push(error) })
    for (const [index, pattern] of (['*', 'ping'] as const).entries()) {
      both.on(pattern, () => Promise.reject(failures[index]))
    }
    expect(await answered(both, 'ping', { webhook_id: 'wh_1' })).toEqual([500, 'handler_failed'])
    const cause = errors[1]?.cause
    expect(cause instanceof AggregateError && cause.errors.map(({ cause }) => cause)).toEqual(failures)
  })

  it.each(['deployment', 'deployment.', 'deploy.*', 'deployment*', '**', 'deployment.*.*', '', 'toString'])(
    'refuses the pattern %j',
    (pattern) => {
      // @ts-expect-error: neither an event nor a pattern
      expect(codeOf(() => createReceiver(options).on(pattern as 'typo', () => {}))).toBe('unknown_event')
    },
  )

  it('refuses a second handler of the same pattern', () => {
    const receiver = createReceiver(options)
    receiver.on(['deployment.*', '*'], () => {})
    expect(codeOf(() => receiver.on('deployment.*', () => {}))).toBe('duplicate_handler')
    expect(codeOf(() => receiver.on(['ping', '*'], () => {}))).toBe('duplicate_handler')
    expect(codeOf(() => receiver.on('ping', () => {}))).toBeUndefined()
  })
})

describe('custom events', () => {
  const events = {
    'invoice.paid': z.object({ amount: z.number(), at: z.string().transform((text) => new Date(text)) }),
    'invoice.item.added': v.object({ name: v.pipe(v.string(), v.minLength(1)) }),
    slow: z.object({ name: z.string().refine(async (name) => name !== 'taken') }),
  }

  it('are checked and typed by their schemas, with any library', async () => {
    const receiver = createReceiver({ ...options, events })
    const seen: unknown[] = []
    receiver.on('invoice.*', ({ event, data }) => void seen.push([event, data]))
    receiver.on(['slow', 'ping'], ({ data }) => void seen.push(data))
    expect(await answered(receiver, 'invoice.paid', { amount: 7, at: '2026-01-01', more: 1 })).toEqual([200, 'handled'])
    expect(await answered(receiver, 'invoice.item.added', { name: 'tea' })).toEqual([200, 'handled'])
    expect(await answered(receiver, 'slow', { name: 'free' })).toEqual([200, 'handled'])
    expect(await answered(receiver, 'ping', { webhook_id: 'wh_1' })).toEqual([200, 'handled'])
    expect(seen).toEqual([
      ['invoice.paid', { amount: 7, at: new Date('2026-01-01') }],
      ['invoice.item.added', { name: 'tea' }],
      { name: 'free' },
      { webhook_id: 'wh_1' },
    ])
  })

  it('are refused by their schema, with the path and never the value', async () => {
    const errors: ReceiverError[] = []
    const receiver = createReceiver({ ...options, events, onError: (error) => void errors.push(error) })
    for (const [event, data] of [
      ['invoice.paid', { amount: 'hunter2', at: '' }],
      ['invoice.item.added', { name: 7 }],
      ['slow', { name: 'taken' }],
    ] as const) {
      expect(await answered(receiver, event, data)).toEqual([400, 'invalid_payload'])
    }
    expect(errors.map(({ message }) => /data\.\w+/.exec(message)?.[0])).toEqual([
      'data.amount',
      'data.name',
      'data.name',
    ])
    expect(errors.map((error) => error.message).join()).not.toContain('hunter2')
  })

  it.each([
    ['a name of Fairlead', { ping: z.object({}) }],
    ['a pattern for a name', { 'invoice.*': z.object({}) }],
    ['an empty name', { '': z.object({}) }],
    ['no schema', { invoice: {} }],
    ['null', { invoice: null }],
  ])('are not declared with %s', (_, wrong) => {
    expect(codeOf(() => createReceiver({ ...options, events: wrong as never }))).toBe('invalid_option')
  })
})

describe('an unknown event', () => {
  it('is answered with 200 and passed unchanged to onUnknown', async () => {
    const seen: Webhook[] = []
    const receiver = createReceiver({ ...options, onUnknown: (webhook) => void seen.push(webhook) })
    expect(await answered(receiver, 'project.renamed', { name: 'x' })).toEqual([200, 'ignored'])
    expect(seen).toMatchObject([{ id: 'msg_1', event: 'project.renamed', data: { name: 'x' } }])
    expect(await answered(createReceiver(options), 'project.renamed', {})).toEqual([200, 'ignored'])
  })

  it('is sent again when onUnknown fails', async () => {
    const onUnknown = () => Promise.reject(new Error('no disk'))
    const receiver = createReceiver({ ...options, onUnknown, onError: () => {} })
    expect(await answered(receiver, 'project.renamed', {})).toEqual([500, 'handler_failed'])
  })
})

describe('the deadline', () => {
  it('aborts the signal and answers 500', async () => {
    const receiver = createReceiver({ ...options, deadline: 0.05, onError: () => {} })
    let aborted = () => {}
    const abort = new Promise<void>((resolve) => {
      aborted = resolve
    })
    receiver.on('ping', (_, { signal }) => {
      signal.addEventListener('abort', () => aborted())
      return new Promise(() => {})
    })
    expect(await answered(receiver, 'ping', { webhook_id: 'wh_1' })).toEqual([500, 'deadline_exceeded'])
    await abort
  })

  it('passes an aborted signal to a handler that reads it late', async () => {
    const receiver = createReceiver({ ...options, deadline: 0.05, onError: () => {} })
    let look: () => boolean = () => false
    receiver.on('ping', (_, context) => {
      look = () => context.signal.aborted
      return new Promise(() => {})
    })
    await answered(receiver, 'ping', { webhook_id: 'wh_1' })
    expect(look()).toBe(true)
  })

  it.each([-1, Number.NaN, Number.POSITIVE_INFINITY])('is refused as %d', (deadline) => {
    expect(codeOf(() => createReceiver({ ...options, deadline }))).toBe('invalid_option')
  })
})

describe("ack 'enqueue'", () => {
  it('answers once the webhook is stored, and runs its handlers when the queue returns the webhook', async () => {
    const queue: string[] = []
    const receiver = createReceiver({
      ...options,
      ack: 'enqueue',
      enqueue: async (webhook) => {
        await Promise.resolve()
        queue.push(JSON.stringify(webhook))
      },
      events: { 'invoice.paid': z.object({ at: z.string().transform((text) => new Date(text)) }) },
    })
    const seen: unknown[] = []
    receiver.on('invoice.paid', ({ id, data }) => void seen.push([id, data.at]))
    expect(await answered(receiver, 'invoice.paid', { at: '2026-01-01' })).toEqual([200, 'enqueued'])
    expect([seen, queue.length]).toEqual([[], 1])
    expect(await receiver.run(JSON.parse(queue[0] ?? ''))).toBe('handled')
    expect(seen).toEqual([['msg_1', new Date('2026-01-01')]])
  })

  it('is answered with 500 when the webhook could not be stored', async () => {
    const full = { ...options, ack: 'enqueue', onError: () => {} } as const
    const failing = createReceiver({ ...full, enqueue: () => Promise.reject(new Error('full')) })
    expect(await answered(failing, 'ping', { webhook_id: 'wh_1' })).toEqual([500, 'enqueue_failed'])
    const throwing = createReceiver({
      ...full,
      enqueue: () => {
        throw new Error('full')
      },
    })
    expect(await answered(throwing, 'ping', { webhook_id: 'wh_1' })).toEqual([500, 'enqueue_failed'])
    const hanging = createReceiver({ ...full, deadline: 0.05, enqueue: () => new Promise(() => {}) })
    expect(await answered(hanging, 'ping', { webhook_id: 'wh_1' })).toEqual([500, 'enqueue_failed'])
  })

  it('stores only genuine webhooks', async () => {
    let kept = 0
    const receiver = createReceiver({ ...options, ack: 'enqueue', enqueue: () => kept++, onError: () => {} })
    const { headers } = signed('ping', { webhook_id: 'wh_1' })
    expect((await receiver.receive(headers, Buffer.from('{}'))).status).toBe(400)
    expect(await answered(receiver, 'ping', {})).toEqual([400, 'invalid_payload'])
    expect(kept).toBe(0)
  })

  it('rejects in the worker when the value is not a webhook or its handler fails', async () => {
    const receiver = createReceiver(options)
    receiver.on('ping', () => Promise.reject(new Error('not now')))
    const ping = { id: 'msg_1', event: 'ping', timestamp: '2026-01-01T00:00:00Z', data: { webhook_id: 'wh_1' } }
    expect(await codeOfAsync(receiver.run(ping))).toBe('handler_failed')
    expect(await codeOfAsync(receiver.run({ ...ping, data: {} }))).toBe('invalid_payload')
    for (const wrong of [undefined, null, 'ping', {}, { ...ping, id: 7 }]) {
      expect(await codeOfAsync(receiver.run(wrong))).toBe('invalid_payload')
    }
    expect(await receiver.run({ ...ping, event: 'other' })).toBe('ignored')
  })

  it('requires a function `enqueue`, and vice versa', () => {
    // @ts-expect-error: nothing to enqueue with
    expect(codeOf(() => createReceiver({ ...options, ack: 'enqueue' }))).toBe('invalid_option')
    // @ts-expect-error: enqueue without its ack
    expect(codeOf(() => createReceiver({ ...options, enqueue: () => {} }))).toBe('invalid_option')
    // @ts-expect-error: not a value of `ack`
    expect(codeOf(() => createReceiver({ ...options, ack: 'before' }))).toBe('invalid_option')
  })
})

describe('secrets', () => {
  const OTHER = 'whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD'
  const { headers, body } = signWebhook({ event: 'ping', data: { webhook_id: 'wh_1' }, secret: OTHER, clock })

  it('may come from a function, which is called every time', async () => {
    let current = [SECRET]
    const receiver = createReceiver({ clock, secrets: async () => current })
    expect(await codeOfAsync(receiver.verify(headers, body))).toBe('no_matching_signature')
    current = [SECRET, OTHER]
    expect(await receiver.verify(headers, body)).toMatchObject({ secretIndex: 1 })
    current = [OTHER]
    expect(await receiver.verify(headers, body)).toMatchObject({ secretIndex: 0 })
  })

  it('are refused when the function returns none, or a weak one', async () => {
    for (const secrets of [[], [''], ['whsec_QQ=='], [OTHER, 'whsec_']]) {
      const receiver = createReceiver({ clock, secrets: () => secrets })
      expect(await codeOfAsync(receiver.verify(headers, body))).toBe('invalid_secret')
    }
  })

  it('that cannot be fetched are answered with 500 and no detail', async () => {
    const errors: ReceiverError[] = []
    const secrets = () => Promise.reject(new Error('vault hunter2'))
    const receiver = createReceiver({ clock, secrets, onError: (error) => void errors.push(error) })
    const answer = await receiver.receive(headers, body)
    expect(answer.status).toBe(500)
    expect(JSON.stringify(answer)).not.toContain('hunter2')
    expect(errors[0]).toBeInstanceOf(ReceiverError)
    expect(String(errors[0]?.cause)).toContain('vault')
  })
})
