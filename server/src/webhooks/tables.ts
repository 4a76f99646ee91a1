import type { Generated } from 'kysely'
import type { DisabledReason } from '../contract/webhooks.ts'

/** The tables of this feature. */
export type WebhooksTables = {
  webhooks: {
    id: string
    account_id: string
    project_id: string | null
    url: string
    /** Names of events, groups such as `deployment.*`, or `*`. */
    events: string[]
    /** The most deliveries a second; `null` for no limit. */
    rate: number | null
    /** The signing secret, encrypted. */
    secret: Buffer
    /** The secret before the last rotation, which also signs until `previous_secret_until`. */
    previous_secret: Buffer | null
    previous_secret_until: Date | null
    status: 'enabled' | 'disabled'
    disabled_reason: DisabledReason | null
    /** Since when every attempt has failed, and how many attempts that were. */
    failing_since: Date | null
    failed_attempts: Generated<number>
    created_at: Generated<Date>
  }
  events: {
    id: string
    account_id: string
    project_id: string | null
    type: string
    /** The exact text that is signed and sent, the same in every attempt and to every endpoint. */
    body: string
    created_at: Generated<Date>
  }
  deliveries: {
    id: string
    webhook_id: string
    event_id: string
    status: 'pending' | 'succeeded' | 'failed'
    /** The number of attempts made, over all rounds. */
    attempts: Generated<number>
    /** Counts the rounds of the schedule: each redelivery begins a new one. */
    round: Generated<number>
    /** Failed attempts of this round: the position in the schedule. */
    failures: Generated<number>
    /** `null` unless the delivery is pending. */
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
    /** The answer's status, headers and body; all `null` when there was no complete answer. */
    status: number | null
    response_headers: Record<string, string> | null
    response_body: string | null
    error: string | null
  }
}
