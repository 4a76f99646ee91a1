import type { ColumnType, Generated, JSONColumnType } from 'kysely'
import type { Scope } from '../../contract/routes.ts'
import type { WorkflowRun } from '../../contract/trust.ts'
import type { Tier } from '../../platform/plans.ts'

type NullableJson<T extends object> = ColumnType<T | null, string | null | undefined, string | null>

export type AccountsTables = {
  accounts: {
    id: string
    name: string
    plan: Tier
    operator: Generated<boolean>
    requests_per_hour: number | null
    created_at: Generated<Date>
  }
  api_keys: {
    id: string
    account_id: string
    name: string
    hash: Buffer
    /** The beginning of the key. */
    hint: string
    scopes: Scope[]
    project_ids: string[] | null
    created_at: Generated<Date>
    last_used_at: Date | null
    expires_at: Date | null
    revoked_at: Date | null
    /** The workflow run that the key was made for; `null` for other keys. */
    workflow: NullableJson<WorkflowRun>
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
    /** The hash in the PHC string format. */
    password_hash: string
    created_at: Generated<Date>
  }
  sessions: {
    id: string
    user_id: string
    hash: Buffer
    secret_hash: Buffer
    address: string
    user_agent: string | null
    created_at: Generated<Date>
    last_seen_at: Generated<Date>
    expires_at: Date
  }
  devices: {
    hash: Buffer
    user_id: string
    last_used_at: Generated<Date>
  }
  setup_links: {
    hash: Buffer
    account_id: string
    expires_at: Date
  }
  device_logins: {
    device_hash: Buffer
    user_hash: Buffer
    name: string
    address: string
    created_at: Generated<Date>
    expires_at: Date
    interval_seconds: number
    polled_at: Date | null
    decided_at: Date | null
    user_id: string | null
  }
  audit_entries: {
    id: string
    account_id: string
    at: Generated<Date>
    actor_type: 'key' | 'user' | 'command' | 'workflow'
    actor_id: string | null
    actor_name: string | null
    address: string | null
    request_id: string | null
    operation: string
    project_id: string | null
    resource_id: string | null
    details: NullableJson<Readonly<Record<string, unknown>>>
  }
  trust_rules: {
    id: string
    project_id: string
    account_id: string
    issuer: string
    repository: string | null
    repository_id: string | null
    branch: string | null
    tag: string | null
    environment: string | null
    event: string | null
    workflow: string | null
    claims: JSONColumnType<Readonly<Record<string, string>>>
    created_at: Generated<Date>
    last_used_at: Date | null
  }
  used_tokens: {
    hash: Buffer
    expires_at: Date
  }
}
