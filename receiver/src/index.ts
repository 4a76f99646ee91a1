/**
 * Verifies Fairlead's webhooks and routes them to typed handlers.
 * @packageDocumentation
 */
export type { EventOf, PatternOf, Schemas } from './catalogue.ts'
export { ReceiverError, type ReceiverErrorCode } from './errors.ts'
export { type EventData, type EventName, events, type WebhookEvent } from './events.ts'
export type { Handler, HandlerContext, Outcome } from './handlers.ts'
export type { WebhookAnswer } from './http/exchange.ts'
export type { KoaContext, KoaMiddleware, KoaOptions } from './http/koa.ts'
export type { ReceiverOptions } from './options.ts'
export type { Envelope, Webhook } from './payload.ts'
export { createReceiver, type Receiver, type VerifiedWebhook } from './receiver.ts'
export type { WebhookHeaders } from './signature/headers.ts'
export type { Secrets } from './signature/keys.ts'
export { generateSecret, parseSecret, type SignInput, sign, type VerifyInput, verify } from './signature/signature.ts'
export type { SigningKey } from './signature/signing-key.ts'
export type { Claim, DedupeStore } from './stores/dedupe.ts'
export { type MemoryStoreOptions, memoryStore } from './stores/memory-store.ts'
export {
  type PostgresQueries,
  type PostgresStore,
  type PostgresStoreOptions,
  postgresStore,
} from './stores/postgres-store.ts'
