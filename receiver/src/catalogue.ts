import { ReceiverError } from './errors.ts'
import { events, type FairleadEvents } from './events.ts'
import type { Matching, Pattern } from './patterns.ts'
import type { OutputOf, StandardSchema } from './standard-schema.ts'

/** Schemas of the `data` of an application's own events, from any library that implements Standard Schema. */
export type Schemas = Readonly<Record<string, StandardSchema>>

/** For applications without events of their own. */
export type NoSchemas = Readonly<Record<never, never>>

/** Event name → its `data`: Fairlead's events and an application's own. */
export type EventsWith<Own extends Schemas> = FairleadEvents & {
  [N in keyof Own]: OutputOf<Own[N]>
}

/** The names of all events. */
export type NameOf<Own extends Schemas> = keyof EventsWith<Own> & string

/** An event name or a pattern of names, as `on` accepts it. */
export type PatternOf<Own extends Schemas> = Pattern<NameOf<Own>>

/**
 * The argument of a handler for `P` (a name, a pattern such as `deployment.*`, or a union of them): the envelope and the
 * webhook's `id`, which is the same for all its attempts. `Own` is the type of the `events` passed to `createReceiver`.
 */
export type EventOf<P extends PatternOf<Own>, Own extends Schemas = NoSchemas> = {
  [N in Matching<NameOf<Own>, P>]: {
    readonly id: string
    readonly event: N
    /** Time of the event in ISO 8601, UTC. */
    readonly timestamp: string
    readonly data: EventsWith<Own>[N]
  }
}[Matching<NameOf<Own>, P>]

/** Event name → schema of its `data`, for all events that a receiver knows. */
export type Catalogue = ReadonlyMap<string, StandardSchema>

/**
 * Combines Fairlead's events with those of the application.
 * @throws ReceiverError `invalid_option`
 */
export function createCatalogue(own: Schemas): Catalogue {
  const catalogue = new Map<string, StandardSchema>(Object.entries(events))
  for (const [name, schema] of Object.entries(own)) {
    if (catalogue.has(name)) {
      throw invalid(`\`events\` declares ${name}, which is Fairlead's own. Give the event another name.`)
    }
    if (name === '' || name.includes('*')) {
      throw invalid(`\`events\` declares "${name}". Give the event a name without "*".`)
    }
    if (typeof schema?.['~standard']?.validate !== 'function') {
      throw invalid(
        `The schema of ${name} is not a schema. Pass one of zod or another library that implements Standard Schema.`,
      )
    }
    catalogue.set(name, schema)
  }
  return catalogue
}

const invalid = (message: string) => new ReceiverError('invalid_option', message)
