import type { Generated } from 'kysely'

/** The tables of this feature. */
export type WebhooksTables = {
  webhooks: {
    id: string
    account_id: string
    project_id: string | null
    url: string
    events: string[]
    /** The signing secret, encrypted. */
    secret: Buffer
    status: 'enabled' | 'disabled'
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
    attempts: Generated<number>
    next_attempt_at: Date | null
    last_status: number | null
    last_error: string | null
    finished_at: Date | null
    created_at: Generated<Date>
  }
}
