import { invalidRequest, notFound } from '../../contract/errors.ts'
import type { BodyOutput, ResponseBody } from '../../contract/operations.ts'
import type { HandlersOf } from '../../http/call.ts'
import type { TenantProject } from '../../http/principal.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import { type Plans, planNamed } from '../../platform/plans.ts'
import { commandLine } from '../../runtimes/command-line.ts'
import type { OwnedApps } from './app-directory.ts'
import { notifyChange } from './changes.ts'
import {
  type DesiredProcess,
  desiredProcesses,
  firstName,
  instancesOf,
  type Scale,
  web,
  withinPlan,
} from './process-types.ts'
import type { DeploymentStore } from './rows.ts'
import type { DeploymentRow, InstanceRow } from './tables.ts'

interface ProcessRequestDependencies {
  readonly database: Database
  readonly store: Pick<DeploymentStore, 'releases' | 'instances' | 'scales'>
  readonly apps: Pick<OwnedApps, 'find' | 'hold'>
  readonly plans: Plans
  readonly latestUsage: (on: Database | Transaction, appId: string) => Promise<LatestUsage | undefined>
}

export interface LatestUsage {
  readonly at: Date
  readonly instances: readonly {
    readonly deployment_id: string
    readonly name: string
    readonly memory_bytes: number
    readonly cpus: number | null
  }[]
}

type Processes = ResponseBody<'processes.list'>
type Running = Processes['processes'][number]['running'][number]

export function processHandlers(dependencies: ProcessRequestDependencies): HandlersOf<'processes'> {
  const { database } = dependencies
  return {
    'processes.list': ({ project, params }) => view(dependencies, database, project, params.app_id),
    async 'processes.update'({ transaction, project, params, body }) {
      await scale(dependencies, transaction, project, params.app_id, body)
      return view(dependencies, transaction, project, params.app_id)
    },
  }
}

/** Sets the numbers of instances under the app's lock, so that two requests together stay within the plan. */
async function scale(
  { store, apps, plans }: ProcessRequestDependencies,
  transaction: Transaction,
  project: TenantProject,
  appId: string,
  { processes }: BodyOutput<'processes.update'>,
): Promise<void> {
  await apps.hold(transaction, project.id, appId)
  const [serving] = await store.releases.serving(transaction, [appId])
  const [latest] = await store.releases.latest(transaction, [appId])
  const types = processesOf(serving ?? latest, new Map()).map(({ type }) => type)
  for (const [type, { instances }] of Object.entries(processes)) {
    const field = `processes.${type}.instances`
    if (!types.includes(type)) {
      throw invalidRequest({
        field: `processes.${type}`,
        message: `is not a process type of this app, which has: ${types.join(', ')}`,
      })
    }
    if (type === web && instances === 0) {
      throw invalidRequest({ field, message: 'must be at least 1: stop the deployment instead' })
    }
    await store.scales.set(transaction, appId, type, instances)
  }
  const desired = processesOf(serving ?? latest, await store.scales.of(transaction, appId))
  const most = planNamed(plans, project.plan).instances
  if (instancesOf(desired) > most) {
    throw invalidRequest({
      field: 'processes',
      message: `are ${instancesOf(desired)} instances together, and the plan ${project.plan} allows an app ${most}`,
    })
  }
  if (serving !== undefined) await notifyChange(transaction, { appId, deploymentId: serving.id })
}

async function view(
  { store, apps, plans, latestUsage }: ProcessRequestDependencies,
  on: Database | Transaction,
  project: TenantProject,
  appId: string,
): Promise<Processes> {
  if ((await apps.find(on, project.id, appId)) === undefined) throw notFound()
  const [serving] = await store.releases.serving(on, [appId])
  const [latest] = await store.releases.latest(on, [appId])
  const scale = await store.scales.of(on, appId)
  const rows = serving === undefined ? [] : await store.instances.of(serving.id, on)
  const usage = usageIn(await latestUsage(on, appId), serving?.id)
  const plan = planNamed(plans, project.plan)
  return {
    release_id: serving?.id ?? null,
    max_instances: plan.instances,
    processes: withinPlan(processesOf(serving ?? latest, scale), plan.instances).map((process) => ({
      type: process.type,
      command: commandLine(process.command.argv),
      instances: process.instances,
      asked: scale.get(process.type) ?? null,
      memory_mb: Math.min(plan.memory_mb, process.memoryMb ?? plan.memory_mb),
      cpus: Math.min(plan.cpus, process.cpus ?? plan.cpus),
      running: runningOf(process, serving, rows).map((each) => ({ ...each, usage: usage.get(each.name) ?? null })),
    })),
  }
}

/** An app that was never built has only `web`, without details. */
function processesOf(row: DeploymentRow | undefined, scale: Scale): DesiredProcess[] {
  const plan = row?.build_plan ?? { kind: 'unknown', build: [], start: { argv: ['-'] } as const }
  return desiredProcesses(plan, scale)
}

function usageIn(latest: LatestUsage | undefined, releaseId: string | undefined): Map<string, Running['usage']> {
  const own = latest?.instances.filter(({ deployment_id }) => deployment_id === releaseId) ?? []
  const measured_at = latest?.at.toISOString() ?? ''
  return new Map(own.map(({ name, memory_bytes, cpus }) => [name, { memory_bytes, cpus, measured_at }]))
}

function runningOf(
  { type }: DesiredProcess,
  serving: DeploymentRow | undefined,
  rows: readonly InstanceRow[],
): Omit<Running, 'usage'>[] {
  const first = { name: firstName(serving?.instance ?? null), state: 'running' as const, restarts: 0, started_at: null }
  const others = rows
    .filter((row) => row.type === type)
    .map(({ number, state, restarts, started_at }) => ({
      name: `${type}.${number}`,
      state,
      restarts,
      started_at: started_at.toISOString(),
    }))
  return type === web && serving !== undefined && serving.instance !== null ? [first, ...others] : others
}
