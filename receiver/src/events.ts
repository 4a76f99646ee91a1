import * as z from 'zod/mini'
import type { $ZodType } from 'zod/v4/core'
import { object } from './object.ts'

const deployment = {
  deployment_id: z.string(),
  project_id: z.string(),
  /** Public address of the deployment. */
  url: z.string(),
}

const database = {
  database_id: z.string(),
  project_id: z.string(),
}

const certificate = {
  certificate_id: z.string(),
  /** Its names, such as `www.example.com` or `*.example.com`. */
  names: z.array(z.string()),
  /** Null for a certificate of the server or of the whole account. */
  project_id: z.nullable(z.string()),
  app_id: z.nullable(z.string()),
}

/**
 * Event name → schema of its `data`: the contract between Fairlead and its receivers. Unknown fields, which a newer server
 * may send, are accepted and removed, so that `data` matches its type.
 */
export const events = {
  'deployment.succeeded': object(deployment),
  'deployment.failed': object({
    ...deployment,
    /** The stage that failed, and the cause as a stable code and as text. */
    failure: object({ stage: z.string(), code: z.string(), message: z.string() }),
  }),
  'deployment.canceled': object(deployment),
  'database.available': object(database),
  'database.failed': object({
    ...database,
    failure: object({ code: z.string(), message: z.string() }),
  }),
  'schedule.failed': object({
    schedule_id: z.string(),
    run_id: z.string(),
    app_id: z.string(),
    project_id: z.string(),
    /** The name of the schedule. */
    name: z.string(),
    /** The exit status of the command; null when a signal ended it. */
    exit_code: z.nullable(z.int()),
    failure: object({ message: z.string() }),
  }),
  'file.uploaded': object({
    file_id: z.string(),
    project_id: z.string(),
    name: z.string(),
    /** Bytes. */
    size: z.int().check(z.nonnegative()),
    /** Download address of the file. */
    url: z.string(),
  }),
  /** A certificate was renewed, or replaced by a certificate with another key. */
  'certificate.renewed': object({
    ...certificate,
    /** RFC 3339. */
    expires_at: z.string(),
  }),
  /** A certificate needs attention: its renewal has failed twice, or it expires soon. Sent once for each incident. */
  'certificate.failed': object({
    ...certificate,
    /** RFC 3339; null when it was never obtained. */
    expires_at: z.nullable(z.string()),
    /** The number of failed attempts in a row. */
    attempts: z.int().check(z.nonnegative()),
    failure: object({ code: z.string(), message: z.string() }),
  }),
  /** Sent only on request, to test that webhooks arrive. */
  ping: object({ webhook_id: z.string() }),
} as const satisfies Record<string, $ZodType<object>>

/** The name of an event in the contract. */
export type EventName = keyof typeof events

/** Event name → its `data`. */
export type FairleadEvents = { [N in EventName]: z.output<(typeof events)[N]> }

/** The `data` of the event `N`. */
export type EventData<N extends EventName = EventName> = FairleadEvents[N]

/** The envelope of the event `N` as sent. Without `N`: the union of all, discriminated by `event`. */
export type WebhookEvent<N extends EventName = EventName> = {
  [K in N]: { event: K; timestamp: string; data: EventData<K> }
}[N]
