import { ApiError, invalidRequest } from '../../contract/errors.ts'
import { isId } from '../../contract/ids.ts'
import type { BodyOutput, ResponseBody } from '../../contract/operations.ts'
import type { TenantProject } from '../../http/principal.ts'
import type { Transaction } from '../../platform/database.ts'
import { newId } from '../../platform/ids.ts'
import { planNamed, plansForTier } from '../../platform/plans.ts'
import type { SecretBox } from '../../platform/secrets.ts'
import { connectionString, newEngineName, newPassword } from '../credentials.ts'
import { type Engine, EngineError } from '../engines/engine.ts'
import { enqueueReconcile } from '../job-queue.ts'
import { databaseLimits } from '../plan-limits.ts'
import type { DatabasesTables } from '../tables.ts'
import { checkQuota, lockAccount, type QuotaDependencies } from './quota.ts'

export interface CreationDependencies extends QuotaDependencies {
  readonly engine: Engine
  readonly secrets: SecretBox
}

const defaultPlan = 'starter'

/** Writes the row of a new database and the job that creates it in the engine. */
export async function createDatabase(
  dependencies: CreationDependencies,
  transaction: Transaction,
  project: TenantProject,
  input: BodyOutput<'databases.create'>,
): Promise<ResponseBody<'databases.create'>> {
  const { engine, plans, secrets } = dependencies
  const plan = await choosePlan(dependencies, transaction, project, input.plan ?? defaultPlan)
  // The lock of the account comes before the locks of rows, as in deletions.
  if (input.snapshot_id !== undefined) await lockAccount(transaction, project)
  const source = input.snapshot_id === undefined ? null : await lockSnapshot(transaction, project, input.snapshot_id)
  const version = await chooseVersion(engine, input.version ?? source?.version)
  if (source !== null) checkSnapshotFits(source, version, databaseLimits(planNamed(plans, plan)).bytes)
  await checkQuota(dependencies, transaction, project, plan)
  const id = newId('database')
  const roleName = newEngineName()
  const password = newPassword()
  const address = await engine.addressOf(transaction, version)
  await transaction
    .withTables<DatabasesTables>()
    .insertInto('databases')
    .values({
      id,
      role_name: roleName,
      project_id: project.id,
      name: input.name,
      plan,
      engine: engine.name,
      version,
      ...address,
      password: secrets.encrypt(password, id),
      status: 'provisioning',
      source_snapshot_id: source?.id ?? null,
    })
    .execute()
  await enqueueReconcile(transaction, id)
  return {
    id,
    name: input.name,
    type: 'postgresql',
    version,
    connection_string: connectionString({ user: roleName, name: roleName, password, ...address }),
    status: 'provisioning',
  }
}

async function choosePlan(
  { plans, tierOf }: Pick<CreationDependencies, 'plans' | 'tierOf'>,
  transaction: Transaction,
  project: TenantProject,
  plan: string,
): Promise<string> {
  const allowed = plansForTier(plans, await tierOf(transaction, project.accountId))
  if (allowed.includes(plan)) return plan
  throw invalidRequest({ field: 'plan', message: `must be one of: ${allowed.join(', ')}` })
}

async function chooseVersion(engine: Engine, version: string | undefined): Promise<string> {
  const versions = await engine.versions().catch(toApiError)
  const chosen = version ?? versions.at(-1)
  if (chosen !== undefined && versions.includes(chosen)) return chosen
  throw invalidRequest({ field: 'version', message: `must be one of: ${versions.join(', ')}` })
}

/** Converts an engine's error into an error for the client; the log has the reason. */
function toApiError(error: unknown): never {
  throw error instanceof EngineError ? new ApiError('server_error', error.message) : error
}

interface SourceSnapshot {
  readonly id: string
  readonly size_bytes: string | null
  readonly version: string
}

/** Reads and locks the snapshot, so that it is not removed before the new database's row refers to it. */
async function lockSnapshot(
  transaction: Transaction,
  project: TenantProject,
  snapshotId: string,
): Promise<SourceSnapshot> {
  const source = await transaction
    .withTables<DatabasesTables>()
    .selectFrom('snapshots')
    .innerJoin('databases', 'databases.id', 'snapshots.database_id')
    .select(['snapshots.id', 'snapshots.size_bytes', 'databases.version'])
    // PostgreSQL rejects some texts that are not ids, such as a text with a zero byte.
    .where('snapshots.id', '=', isId('snapshot', snapshotId) ? snapshotId : '')
    .where('snapshots.status', '=', 'available')
    .where('databases.project_id', '=', project.id)
    .forUpdate('snapshots')
    .executeTakeFirst()
  if (source !== undefined) return source
  throw invalidRequest({ field: 'snapshot_id', message: 'there is no such snapshot in this project' })
}

function checkSnapshotFits(source: SourceSnapshot, version: string, maxBytes: number): void {
  if (source.version !== version) {
    throw invalidRequest({ field: 'version', message: `must be ${source.version}, as that of the snapshot` })
  }
  if (Number(source.size_bytes) > maxBytes) {
    throw invalidRequest({ field: 'plan', message: `allows ${maxBytes} bytes, and the snapshot is larger` })
  }
}
