import type { Generated } from 'kysely'

export type ProjectsTables = {
  projects: {
    id: string
    account_id: string
    name: string
    region: string
    plan: string
    status: 'active' | 'deleting'
    created_at: Generated<Date>
  }
  /** The number of an account's active projects, as the sum over its slots. Database triggers maintain it. */
  project_counts: {
    account_id: string
    slot: number
    total: string
  }
}
