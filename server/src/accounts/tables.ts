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
    created_at: Generated<Date>
  }
  api_keys: {
    id: string
    account_id: string
    name: string
    hash: Buffer
    scopes: Scope[]
    project_ids: string[] | null
    created_at: Generated<Date>
    last_used_at: Date | null
    expires_at: Date | null
    revoked_at: Date | null
  }
}
