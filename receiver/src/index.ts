/**
 * Verifies Fairlead's webhooks and routes them to typed handlers.
 * @packageDocumentation
 */
export type { EventOf, PatternOf, Schemas } from './catalogue.ts'
export type { Claim, DedupeStore } from './dedupe.ts'
export { ReceiverError, type ReceiverErrorCode } from './errors.ts'
export { type EventData, type EventName, events, type WebhookEvent } from './events.ts'
export type { WebhookAnswer } from './exchange.ts'
export type { Handler, HandlerContext, Outcome } from './handlers.ts'
export type { WebhookHeaders } from './headers.ts'
export type { Secrets } from './keys.ts'
export type { KoaContext, KoaMiddleware, KoaOptions } from './koa.ts'
export { type MemoryStoreOptions, memoryStore } from './memory-store.ts'
export type { ReceiverOptions } from './options.ts'
export type { Envelope, Webhook } from './payload.ts'
export { type PostgresQueries, type PostgresStore, type PostgresStoreOptions, postgresStore } from './postgres-store.ts'
export { createReceiver, type Receiver, type VerifiedWebhook } from './receiver.ts'
export { generateSecret, parseSecret, type SignInput, sign, type VerifyInput, verify } from './signature.ts'
export type { SigningKey } from './signing-key.ts'
