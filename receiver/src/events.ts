import { z } from 'zod'

/** What every webhook's body looks like, whatever its event (the specification's section "Events"). */
export const envelope = z.object({
  event: z.string(),
  /** Time of the event, ISO 8601 in UTC. */
  timestamp: z.iso.datetime(),
  data: z.looseObject({}),
})

/**
 * Event name → schema of its `data`. This table is the contract between Fairlead and its receivers.
 * Fields that a newer server adds are let through and left out of the result, so that `data` is what its type says.
 */
export const events = {
  'deployment.succeeded': z.object({
    deployment_id: z.string(),
    project_id: z.string(),
    /** Public address of the deployment. */
    url: z.string(),
  }),
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
