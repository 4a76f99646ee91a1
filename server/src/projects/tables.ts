import type { Generated } from 'kysely'

/** The tables of this feature. */
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
  /** The number of an account's active projects, as the sum over its slots. Triggers in the database maintain it. */
  project_counts: {
    account_id: string
    slot: number
    total: string
  }
}
