import { invalidRequest, notFound } from '../../contract/errors.ts'
import type { ResponseBody } from '../../contract/operations.ts'
import { isVolumeName } from '../../contract/volume-rules.ts'
import type { HandlersOf } from '../../http/call.ts'
import type { TenantProject } from '../../http/principal.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import { type Plans, planNamed } from '../../platform/plans.ts'
import { limitsOf } from '../../runtimes/limits.ts'
import type { OwnedApps } from './app-directory.ts'
import type { DeploymentStore } from './rows.ts'
import type { DeploymentRow } from './tables.ts'

interface VolumeRequestDependencies {
  readonly database: Database
  readonly store: Pick<DeploymentStore, 'releases'>
  readonly apps: Pick<OwnedApps, 'find' | 'hold'>
  readonly folders: {
    names(appId: string): Promise<readonly string[]>
    /** The bytes of a volume on the disk; infinity when it cannot be read. */
    bytesOf(appId: string, name: string): Promise<number>
    /** Detaches volumes from the app at once; their files are removed later. */
    remove(appId: string, names: readonly string[]): Promise<void>
  }
  readonly plans: Plans
}

export function volumeHandlers(dependencies: VolumeRequestDependencies): HandlersOf<'volumes'> {
  const { database } = dependencies
  return {
    'volumes.list': ({ project, params }) => view(dependencies, database, project, params.app_id),
    async 'volumes.update'({ transaction, project, params, body }) {
      await remove(dependencies, transaction, project, params.app_id, body.delete)
      return view(dependencies, transaction, project, params.app_id)
    },
  }
}

/** Under the app's lock, which every deployment takes: no deployment that names a volume can begin at the same time. */
async function remove(
  { store, apps, folders }: VolumeRequestDependencies,
  transaction: Transaction,
  project: TenantProject,
  appId: string,
  names: readonly string[],
): Promise<void> {
  await apps.hold(transaction, project.id, appId)
  const rows = await newestOf(store, transaction, appId)
  if (rows.some(({ status }) => status === 'building')) {
    throw invalidRequest({
      field: 'delete',
      message: 'is refused while the app is being deployed: try again afterwards',
    })
  }
  const used = pathsIn(rows)
  const existing = await folders.names(appId)
  for (const [index, name] of names.entries()) {
    const field = `delete.${index}`
    if (!isVolumeName(name) || !existing.includes(name)) {
      throw invalidRequest({ field, message: 'is not a volume of this app' })
    }
    if (Object.hasOwn(used, name)) {
      throw invalidRequest({ field, message: 'is in use: deploy a release that does not name it first' })
    }
  }
  await folders.remove(appId, names)
}

async function view(
  { store, apps, folders, plans }: VolumeRequestDependencies,
  on: Database | Transaction,
  project: TenantProject,
  appId: string,
): Promise<ResponseBody<'volumes.list'>> {
  if ((await apps.find(on, project.id, appId)) === undefined) throw notFound()
  const used = pathsIn(await newestOf(store, on, appId))
  const volumes: ResponseBody<'volumes.list'>['volumes'] = []
  for (const name of await folders.names(appId)) {
    const bytes = await folders.bytesOf(appId, name)
    volumes.push({
      name,
      path: Object.hasOwn(used, name) ? (used[name] ?? null) : null,
      bytes: Number.isFinite(bytes) ? bytes : null,
    })
  }
  return { max_bytes: limitsOf(planNamed(plans, project.plan)).diskBytes, volumes }
}

async function newestOf(
  { releases }: Pick<DeploymentStore, 'releases'>,
  on: Database | Transaction,
  appId: string,
): Promise<readonly DeploymentRow[]> {
  return [...(await releases.latest(on, [appId])), ...(await releases.serving(on, [appId]))]
}

/** Returns the volumes that releases name; later releases take precedence. */
const pathsIn = (rows: readonly DeploymentRow[]): VolumePaths =>
  Object.assign({}, ...rows.map(({ build_plan }) => build_plan?.volumes ?? {}))

type VolumesTables = {
  app_volumes: {
    app_id: string
    name: string
    /** Absolute, in the container. */
    path: string
  }
}

const tablesOf = (on: Database | Transaction) => on.withTables<VolumesTables>()

type VolumePaths = Readonly<Record<string, string>>

export async function imageVolumesOf(on: Database | Transaction, appId: string): Promise<VolumePaths> {
  const rows = await tablesOf(on).selectFrom('app_volumes').selectAll().where('app_id', '=', appId).execute()
  return Object.fromEntries(rows.map(({ name, path }) => [name, path]))
}

/** Replaces the volumes of the app's further images. Files of volumes do not change. */
export async function setImageVolumes(transaction: Transaction, appId: string, volumes: VolumePaths): Promise<void> {
  const trx = tablesOf(transaction)
  await trx.deleteFrom('app_volumes').where('app_id', '=', appId).execute()
  const rows = Object.entries(volumes).map(([name, path]) => ({ app_id: appId, name, path }))
  if (rows.length > 0) await trx.insertInto('app_volumes').values(rows).execute()
}
