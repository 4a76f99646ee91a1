import type { Generated } from 'kysely'
import type { DisabledReason } from '../../contract/webhooks.ts'

export type WebhooksTables = {
  webhooks: {
    id: string
    account_id: string
    project_id: string | null
    url: string
    /** Names of events, groups such as `deployment.*`, or `*`. */
    events: string[]
    rate: number | null
    secret: Buffer
    /** The secret before the last rotation, which also signs until `previous_secret_until`. */
    previous_secret: Buffer | null
    previous_secret_until: Date | null
    status: 'enabled' | 'disabled'
    disabled_reason: DisabledReason | null
    /** The time since which every attempt has failed; `failed_attempts` counts these attempts. */
    failing_since: Date | null
    failed_attempts: Generated<number>
    created_at: Generated<Date>
  }
  events: {
    id: string
    account_id: string
    project_id: string | null
    type: string
    /** The exact text to sign and send, the same in every attempt and for every endpoint. */
    body: string
    created_at: Generated<Date>
  }
  deliveries: {
    id: string
    webhook_id: string
    event_id: string
    status: 'pending' | 'succeeded' | 'failed'
    /** The number of attempts in all rounds. */
    attempts: Generated<number>
    /** The number of the round; each redelivery begins a new round of the schedule. */
    round: Generated<number>
    /** The failed attempts of this round: the position in the schedule. */
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
    /** The answer's status, headers and body; all `null` without a complete answer. */
    status: number | null
    response_headers: Record<string, string> | null
    response_body: string | null
    error: string | null
  }
}
