import type { ColumnType, Generated, JSONColumnType } from 'kysely'
import type { DeploymentFailure, DeploymentStatus } from '../../contract/resources/deployments.ts'
import type { Instance, Plan } from '../../runtimes/runtime.ts'

type NullableJson<T extends object> = ColumnType<T | null, string | null, string | null>

/** The tables of this feature. */
export type DeploymentsTables = {
  apps: {
    id: string
    project_id: string
    name: string
    /** Counts apps over the whole server; the uid of the app's processes is made of it. */
    number: ColumnType<number, never, never>
    port: number | null
    hostname: string | null
    /** How often a release of it was wanted: the last `intent` of its deployments. */
    intents: Generated<number>
    created_at: Generated<Date>
  }
  deployments: {
    id: string
    project_id: string
    app_id: string
    account_id: string
    status: DeploymentStatus
    /**
     * The order in which releases of the app were wanted, by creation, rollback or restart. The highest is what the
     * owner wants now; together with the id it names one wish, so that work for an earlier one changes nothing.
     */
    intent: number
    /** Whether its files lie on the disk, built, so that it can be started. */
    retained: Generated<boolean>
    git_url: string
    branch: string | null
    commit: string | null
    /** The app's variables as encrypted JSON. */
    variables: Buffer
    /** For the fetch alone, encrypted; null when that is over. */
    git_token: Buffer | null
    plan: NullableJson<Plan>
    /** The running process; null before the first start. */
    instance: NullableJson<Instance>
    failure: JSONColumnType<DeploymentFailure> | ColumnType<null, string | null, string | null>
    /** How often the work on it was begun: more than once when the server died in between. */
    attempts: Generated<number>
    created_at: Generated<Date>
    started_at: Date | null
    finished_at: Date | null
  }
  /** Requests of an hour, and how many of them were answered with an error. */
  app_traffic: {
    app_id: string
    hour: Date
    requests: string
    errors: string
  }
}
