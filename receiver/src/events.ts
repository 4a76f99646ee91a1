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

/**
 * Event name → schema of its `data`. This table is the contract between Fairlead and its receivers.
 * Fields that a newer server adds are let through and left out of the result, so that `data` is what its type says.
 */
export const events = {
  'deployment.succeeded': object(deployment),
  'deployment.failed': object({
    ...deployment,
    /** The step that failed, why as a stable word, and why as text. */
    failure: object({ stage: z.string(), code: z.string(), message: z.string() }),
  }),
  'deployment.canceled': object(deployment),
  'database.available': object(database),
  'database.failed': object({
    ...database,
    failure: object({ code: z.string(), message: z.string() }),
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
  /** Sent on request alone, to see whether webhooks arrive. */
  ping: object({ webhook_id: z.string() }),
} as const satisfies Record<string, $ZodType<object>>

/** The name of an event in the contract. */
export type EventName = keyof typeof events

/** Event name → its `data`. */
export type FairleadEvents = { [N in EventName]: z.output<(typeof events)[N]> }

/** The `data` of the event `N`. */
export type EventData<N extends EventName = EventName> = FairleadEvents[N]

/** The envelope of the event `N` as it is on the wire. Without `N`: all of them, told apart by `event`. */
export type WebhookEvent<N extends EventName = EventName> = {
  [K in N]: { event: K; timestamp: string; data: EventData<K> }
}[N]
