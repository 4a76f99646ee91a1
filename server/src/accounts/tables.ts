import type { Generated } from 'kysely'
import type { Scope } from '../contract/routes.ts'
import type { Tier } from '../platform/plans.ts'

/** The tables of this feature. */
export type AccountsTables = {
  accounts: {
    id: string
    name: string
    plan: Tier
    operator: Generated<boolean>
    /** Overrides the limit of the plan. */
    requests_per_hour: number | null
    created_at: Generated<Date>
  }
  api_keys: {
    id: string
    account_id: string
    name: string
    hash: Buffer
    /** The beginning of the key; `null` for keys older than this column. */
    hint: string | null
    scopes: Scope[]
    project_ids: string[] | null
    created_at: Generated<Date>
    last_used_at: Date | null
    expires_at: Date | null
    revoked_at: Date | null
  }
  rate_windows: {
    account_id: string
    started_at: Date
    used: string
  }
  users: {
    id: string
    account_id: string
    email: string
    /** In the PHC string format. */
    password_hash: string
    created_at: Generated<Date>
  }
  sessions: {
    id: string
    user_id: string
    hash: Buffer
    address: string
    user_agent: string | null
    created_at: Generated<Date>
    last_seen_at: Generated<Date>
    expires_at: Date
  }
  setup_links: {
    hash: Buffer
    account_id: string
    expires_at: Date
  }
  audit_entries: {
    id: string
    account_id: string
    at: Generated<Date>
    actor_type: 'key' | 'user' | 'command'
    actor_id: string | null
    actor_name: string | null
    address: string | null
    request_id: string | null
    operation: string
    project_id: string | null
    resource_id: string | null
  }
}
