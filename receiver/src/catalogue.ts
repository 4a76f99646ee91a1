import { ReceiverError } from './errors.ts'
import { events, type FairleadEvents } from './events.ts'
import type { Matching, Pattern } from './patterns.ts'
import type { OutputOf, StandardSchema } from './standard-schema.ts'

/** Schemas of the `data` of an application's own events, of any library that speaks Standard Schema. */
export type Schemas = Readonly<Record<string, StandardSchema>>

/** No events of one's own. */
export type NoSchemas = Readonly<Record<never, never>>

/** Event name → its `data`: Fairlead's events and an application's own. */
export type EventsWith<Own extends Schemas> = FairleadEvents & {
  [N in keyof Own]: OutputOf<Own[N]>
}

/** The names of all events. */
export type NameOf<Own extends Schemas> = keyof EventsWith<Own> & string

/** What `on` takes as an event. */
export type PatternOf<Own extends Schemas> = Pattern<NameOf<Own>>

/**
 * What a handler of `P` (a name, a pattern such as `deployment.*`, or several) is given: the envelope, and the `id` of
 * the webhook, which is the same over all its attempts. `Own` is the type of the `events` given to `createReceiver`.
 */
export type EventOf<P extends PatternOf<Own>, Own extends Schemas = NoSchemas> = {
  [N in Matching<NameOf<Own>, P>]: {
    readonly id: string
    readonly event: N
    /** Time of the event, ISO 8601 in UTC. */
    readonly timestamp: string
    readonly data: EventsWith<Own>[N]
  }
}[Matching<NameOf<Own>, P>]

/** Name → schema, for every event that a receiver knows. */
export type Catalogue = ReadonlyMap<string, StandardSchema>

/**
 * Puts an application's events beside Fairlead's.
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
      throw invalid(`The schema of ${name} is none. Pass one of zod or another library that speaks Standard Schema.`)
    }
    catalogue.set(name, schema)
  }
  return catalogue
}

const invalid = (message: string) => new ReceiverError('invalid_option', message)
