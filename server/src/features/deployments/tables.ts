import type { ColumnType, Generated, JSONColumnType, Selectable } from 'kysely'
import type { BuildPlan } from '../../builds/build-plan.ts'
import type { DeploymentStatus, DeploymentTrigger, StepTimes } from '../../contract/deployments.ts'
import type { VariableKind } from '../../contract/variables.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import type { Handle } from '../../runtimes/runtime.ts'
import type { DeploymentFailure } from './failure.ts'
import type { VariableOrigins } from './release-variables.ts'

type NullableJson<T extends object> = ColumnType<T | null, string | null, string | null>

/** The message, the author and the time of a commit; `at` is in ISO 8601. */
export interface CommitDetails {
  readonly message: string
  readonly author: string
  readonly at: string
}

/** The steps that the job of one generation has begun, in order. The last step has no end yet. */
export interface RecordedSteps {
  readonly generation: number
  readonly steps: readonly StepTimes[]
}

/**
 * The request that one generation follows: a rollback or a restart of a retained release, or an application of
 * variables.
 */
export interface LastRequest {
  readonly generation: number
  readonly kind: 'rollback' | 'restart' | 'variables'
  /** The time in RFC 3339. */
  readonly at: string
  readonly by: DeploymentTrigger
}

export type DeploymentsTables = {
  deployments: {
    id: string
    project_id: string
    app_id: string
    account_id: string
    status: DeploymentStatus
    /**
     * Orders the deployments of an app by their owner's requests: each creation, rollback and restart takes the next
     * number of the app. The highest is desired. Together with the id it names one request, so that a job for an
     * earlier request of the same deployment changes nothing.
     */
    generation: number
    /** True while its built release is kept, so that it can be started. */
    retained: Generated<boolean>
    /** Empty for an uploaded source and an image. */
    git_url: string
    source_id: string | null
    image: string | null
    /** The digest (`sha256:…`) by which the image was pulled; null before the pull, and for other sources. */
    image_digest: string | null
    from_deployment_id: string | null
    branch: string | null
    commit: string | null
    commit_details: NullableJson<CommitDetails>
    triggered_by: JSONColumnType<DeploymentTrigger>
    /** The folder of the app, which overrides fairlead.json; null when the request names no folder. */
    root: string | null
    variables: Buffer
    /**
     * Connection strings from before rotations, the latest last, as encrypted JSON, because logs mask their passwords.
     * Null without rotations.
     */
    former_values: Buffer | null
    variable_origins: JSONColumnType<VariableOrigins>
    /** Encrypted, only for the fetch; null afterwards. */
    git_token: Buffer | null
    /**
     * The deployment that superseded this waiting deployment, until the newer deployment serves or fails; null
     * otherwise.
     */
    superseded_by: string | null
    build_plan: NullableJson<BuildPlan>
    runtime: string
    instance: NullableJson<Handle>
    failure: JSONColumnType<DeploymentFailure> | ColumnType<null, string | null, string | null>
    /** Counts the starts of its job: more than one when the server died in between. */
    attempts: Generated<number>
    /** The number of builds that end before its build begins; null while it waits for no build. */
    builds_before: number | null
    /** Null before the job begins. From an earlier generation until the job of the next generation begins. */
    steps: NullableJson<RecordedSteps>
    /** The latest rollback or restart, or the application of variables that made it; null without one. */
    last_request: NullableJson<LastRequest>
    created_at: Generated<Date>
    started_at: Date | null
    finished_at: Date | null
  }
  app_variables: {
    app_id: string
    name: string
    kind: VariableKind
    value: Buffer
    /** The source whose code may have it; null while the source is unknown. */
    source: string | null
    updated_at: Generated<Date>
  }
  database_links: {
    id: string
    project_id: string
    app_id: string
    database_id: string
    variable: string
    source: string | null
    created_at: Generated<Date>
  }
  /** The instances of a release, except its first `web` instance, which is in `deployments.instance`. */
  instances: {
    deployment_id: string
    type: string
    /** The number in the name, from 2 for `web`, and from 1 for other types. */
    number: number
    handle: JSONColumnType<Handle>
    state: InstanceState
    restarts: Generated<number>
    started_at: Generated<Date>
  }
  /** How many instances the owner of an app has requested; without a row, fairlead.json decides. */
  app_processes: {
    app_id: string
    type: string
    instances: number
  }
  /** Uploaded sources. Their files are named by the ids. */
  sources: {
    id: string
    project_id: string
    account_id: string
    /** The space that it takes; during the upload, the reserved space. PostgreSQL's bigint arrives as text. */
    bytes: ColumnType<string, number, number>
    commit: string | null
    branch: string | null
    received_at: Date | null
    /** The time of its last use: its upload, or the creation of a deployment. */
    used_at: Generated<Date>
    created_at: Generated<Date>
  }
}

export type InstanceState = 'starting' | 'running' | 'ended'
export type InstanceRow = Selectable<DeploymentsTables['instances']>

export type DeploymentRow = Selectable<DeploymentsTables['deployments']>

/** A deployment with the id of its app's deployment that has the highest generation. */
export interface DeploymentWithLatest extends DeploymentRow {
  readonly latest_id: string
  /** How many builds end before the build of a queued deployment begins; `null` when it waits for none. */
  readonly expected_builds_before: number | null
}

/** Names one request for a deployment: a later request has a higher generation. */
export type DeploymentGeneration = Pick<DeploymentRow, 'id' | 'generation'>

export const tablesOf = (on: Database | Transaction) => on.withTables<DeploymentsTables>()
