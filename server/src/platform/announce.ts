import type { EventData, EventName } from '@fairlead/receiver'
import type { Transaction } from './database.ts'

export interface OutgoingEvent<Name extends EventName = EventName> {
  readonly accountId: string
  /** Null for an event of the account itself, which only webhooks for all projects receive. */
  readonly projectId: string | null
  readonly event: Name
  readonly data: EventData<Name>
}

/**
 * Writes an event and its deliveries in the transaction that makes the event true. So an event is announced if and only
 * if it has happened.
 */
export type Announce = <Name extends EventName>(
  transaction: Transaction,
  outgoing: OutgoingEvent<Name>,
) => Promise<void>
