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
}
