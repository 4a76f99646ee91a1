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
  /** How many active projects an account has is the sum of its slots; triggers of the database keep it. */
  project_counts: {
    account_id: string
    slot: number
    total: string
  }
}
