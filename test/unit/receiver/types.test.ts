import type { Middleware } from 'koa'
import Koa from 'koa'
import { describe, expect, expectTypeOf, it } from 'vitest'
import {
  createReceiver,
  type EventData,
  type EventName,
  type EventOf,
  type Handler,
  type WebhookEvent,
} from '../../../receiver/src/index.ts'
import { codeOf, SECRET } from '../../harness/receiver/support.ts'

describe('types', () => {
  const receiver = createReceiver({ secrets: [SECRET] })

  it('gives a handler the exact event', () => {
    receiver.on('deployment.succeeded', (event) => {
      expectTypeOf(event.id).toEqualTypeOf<string>()
      expectTypeOf(event.event).toEqualTypeOf<'deployment.succeeded'>()
      expectTypeOf(event.timestamp).toEqualTypeOf<string>()
      expectTypeOf(event.data).toEqualTypeOf<{ deployment_id: string; project_id: string; url: string }>()
      // @ts-expect-error: not a field of this event
      event.data.uri
    })
  })

  it('keeps a handler typed when it is declared separately', () => {
    const handler: Handler<'deployment.succeeded'> = async ({ data }) => {
      expectTypeOf(data).toEqualTypeOf<EventData<'deployment.succeeded'>>()
    }
    createReceiver({ secrets: [SECRET] }).on('deployment.succeeded', handler)
  })

  it('does not compile, or run, with a name that is not an event', () => {
    // @ts-expect-error: a typo
    expect(codeOf(() => receiver.on('deployment.suceeded', () => {}))).toBe('unknown_event')
    // @ts-expect-error: a method of every object, but not an event
    expect(codeOf(() => receiver.on('toString', () => {}))).toBe('unknown_event')
  })

  it('does not compile, or run, with a handler that is not a function', () => {
    // @ts-expect-error: not a function
    expect(codeOf(() => createReceiver({ secrets: [SECRET] }).on('deployment.succeeded', 1))).toBe('invalid_option')
  })

  it('discriminates events by their name', () => {
    expectTypeOf<EventName>().toEqualTypeOf<
      | 'deployment.succeeded'
      | 'deployment.failed'
      | 'deployment.canceled'
      | 'database.available'
      | 'database.failed'
      | 'schedule.failed'
      | 'file.uploaded'
      | 'certificate.renewed'
      | 'certificate.failed'
      | 'ping'
    >()
    expectTypeOf<WebhookEvent['event']>().toEqualTypeOf<EventName>()
    expectTypeOf<EventOf<'*'>['event']>().toEqualTypeOf<EventName>()
    const failureOf = (event: WebhookEvent) => (event.event === 'deployment.failed' ? event.data.failure.stage : '')
    expectTypeOf(failureOf).returns.toEqualTypeOf<string>()
  })

  it('is accepted by app.use without a cast, whatever the state and context', () => {
    const middleware = receiver.middleware({ path: '/webhooks/fairlead' })
    expectTypeOf(middleware).toExtend<Middleware>()
    expectTypeOf(middleware).toExtend<Middleware<{ user: string }, { log: (text: string) => void }>>()
    expectTypeOf(new Koa().use(middleware)).toEqualTypeOf<Koa>()
    const own = new Koa<{ user: string }, { log: (text: string) => void }>()
    expectTypeOf(own.use(middleware)).toExtend<typeof own>()
  })
})
