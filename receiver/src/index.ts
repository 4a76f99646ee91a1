/**
 * Verifies Fairlead's webhooks and routes them to typed handlers.
 * @packageDocumentation
 */
export { ReceiverError, type ReceiverErrorCode } from './errors.ts'
export { type EventData, type EventName, envelope, events, type WebhookEvent } from './events.ts'
export type { WebhookHeaders } from './headers.ts'
export type { KoaContext, KoaMiddleware, KoaOptions } from './koa.ts'
export type { ReceivedEvent, UnknownEvent, VerifiedWebhook } from './payload.ts'
export { createReceiver, type EventHandler, type Receiver, type ReceiverOptions } from './receiver.ts'
export { generateSecret, parseSecret, type SignInput, sign, type VerifyInput, verify } from './signature.ts'
