import type { ColumnType, Generated, JSONColumnType, Selectable } from 'kysely'
import type { BuildPlan } from '../../builds/build-plan.ts'
import type { DeploymentFailure, DeploymentStatus } from '../../contract/resources/deployments.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import type { Handle } from '../../runtimes/runtime.ts'

type NullableJson<T extends object> = ColumnType<T | null, string | null, string | null>

/** The table of this feature. */
export type DeploymentsTables = {
  deployments: {
    id: string
    project_id: string
    app_id: string
    account_id: string
    status: DeploymentStatus
    /**
     * Orders the deployments of an app by their owner's requests: each creation, rollback and restart takes the next
     * number of the app. The highest is the desired one. Together with the id it names one request, so that a job
     * for an earlier request of the same deployment changes nothing.
     */
    generation: number
    /** True while its release is kept, built, so that it can be started. */
    retained: Generated<boolean>
    git_url: string
    branch: string | null
    commit: string | null
    /** The app's variables as encrypted JSON. */
    variables: Buffer
    /** Encrypted, for the fetch alone; null afterwards. */
    git_token: Buffer | null
    build_plan: NullableJson<BuildPlan>
    /** The name of the runtime that keeps the release. */
    runtime: string
    /** The running instance; null before the first start. */
    instance: NullableJson<Handle>
    failure: JSONColumnType<DeploymentFailure> | ColumnType<null, string | null, string | null>
    /** Counts how often its job began: more than once when the server died in between. */
    attempts: Generated<number>
    created_at: Generated<Date>
    started_at: Date | null
    finished_at: Date | null
  }
}

export type DeploymentRow = Selectable<DeploymentsTables['deployments']>

/** A deployment with the id of the one of its app that has the highest generation. */
export interface DeploymentWithLatest extends DeploymentRow {
  readonly latest_id: string
}

/** Names one request for a deployment: a later one has a higher generation. */
export type DeploymentGeneration = Pick<DeploymentRow, 'id' | 'generation'>

/** This feature's table, inside a transaction or outside of one. */
export const tablesOf = (on: Database | Transaction) => on.withTables<DeploymentsTables>()
