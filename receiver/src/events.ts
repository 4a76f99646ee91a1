import { z } from 'zod'

/** What every webhook's body looks like, whatever its event (the specification's section "Events"). */
export const envelope = z.object({
  event: z.string(),
  /** Time of the event, ISO 8601 in UTC. */
  timestamp: z.iso.datetime(),
  data: z.looseObject({}),
})

const deployment = z.object({
  deployment_id: z.string(),
  project_id: z.string(),
  /** Public address of the deployment. */
  url: z.string(),
})

const database = z.object({
  database_id: z.string(),
  project_id: z.string(),
})

/**
 * Event name → schema of its `data`. This table is the contract between Fairlead and its receivers.
 * Fields that a newer server adds are let through and left out of the result, so that `data` is what its type says.
 */
export const events = {
  'deployment.succeeded': deployment,
  'deployment.failed': z.object({
    ...deployment.shape,
    /** The step that failed, why as a stable word, and why as text. */
    failure: z.object({ stage: z.string(), code: z.string(), message: z.string() }),
  }),
  'deployment.canceled': deployment,
  'database.available': database,
  'database.failed': z.object({
    ...database.shape,
    failure: z.object({ code: z.string(), message: z.string() }),
  }),
  'file.uploaded': z.object({
    file_id: z.string(),
    project_id: z.string(),
    name: z.string(),
    /** Bytes. */
    size: z.int().nonnegative(),
    /** Download address of the file. */
    url: z.string(),
  }),
  /** Sent on request alone, to see whether webhooks arrive. */
  ping: z.object({ webhook_id: z.string() }),
} as const satisfies Record<string, z.ZodType<object>>

export type Envelope = z.output<typeof envelope>

/** The name of an event in the contract. */
export type EventName = keyof typeof events

/** The `data` of the event `N`. */
export type EventData<N extends EventName = EventName> = z.output<(typeof events)[N]>

/** The envelope of the event `N` as it is on the wire. Without `N`: all of them, told apart by `event`. */
export type WebhookEvent<N extends EventName = EventName> = {
  [K in N]: { event: K; timestamp: string; data: EventData<K> }
}[N]

/** Whether this version of the package knows the event. */
export const isEventName = (name: string): name is EventName => Object.hasOwn(events, name)
