import type { Generated } from 'kysely'
import type { DisabledReason } from '../contract/resources/webhooks.ts'

/** The tables of this feature. */
export type WebhooksTables = {
  webhooks: {
    id: string
    account_id: string
    project_id: string | null
    url: string
    /** Names of events, groups such as `deployment.*`, or `*`. */
    events: string[]
    /** Deliveries a second at most. */
    rate: number | null
    /** The signing secret, encrypted. */
    secret: Buffer
    /** The secret before the last rotation, which signs as well until the time beside it. */
    previous_secret: Buffer | null
    previous_secret_until: Date | null
    status: 'enabled' | 'disabled'
    disabled_reason: DisabledReason | null
    /** Since when every attempt has failed, and how many those were. */
    failing_since: Date | null
    failed_attempts: Generated<number>
    created_at: Generated<Date>
  }
  events: {
    id: string
    account_id: string
    project_id: string | null
    type: string
    /** The exact text that is signed and sent, the same for every attempt and receiver. */
    body: string
    created_at: Generated<Date>
  }
  deliveries: {
    id: string
    webhook_id: string
    event_id: string
    status: 'pending' | 'succeeded' | 'failed'
    /** All that were made. */
    attempts: Generated<number>
    /** Each redelivery begins a round of the schedule. */
    round: Generated<number>
    /** Failed attempts of this round: the place in the schedule. */
    failures: Generated<number>
    /** Set exactly while the delivery is pending. */
    next_attempt_at: Date | null
    last_status: number | null
    last_error: string | null
    finished_at: Date | null
    created_at: Generated<Date>
  }
  webhook_attempts: {
    delivery_id: string
    number: number
    at: Date
    duration_ms: number
    url: string
    request_headers: Record<string, string>
    /** The answer; all `null` when there was none. */
    status: number | null
    response_headers: Record<string, string> | null
    response_body: string | null
    error: string | null
  }
}
