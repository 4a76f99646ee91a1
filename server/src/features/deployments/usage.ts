import type { Logger } from '../../platform/logger.ts'
import type { Limits } from '../../runtimes/limits.ts'
import type { Handle, Usage } from '../../runtimes/runtime.ts'
import type { InstanceControl } from './instances.ts'
import { firstNumber, web, withLimits } from './process-types.ts'
import type { DeploymentStore } from './rows.ts'
import type { DeploymentRow } from './tables.ts'

interface MeasuredInstance {
  readonly appId: string
  readonly deploymentId: string
  readonly name: string
  /** `null` for a static site, which has no process. */
  readonly used: Pick<Usage, 'memoryBytes' | 'cpuSeconds'> | null
  readonly limits: Limits
}

export type MeasureInstances = (signal: AbortSignal) => Promise<readonly MeasuredInstance[]>

export function createMeasureInstances({
  store,
  instances,
  usageOf,
  limitsOf,
  logger,
}: {
  readonly store: { readonly rows: Pick<DeploymentStore['rows'], 'running'> } & Pick<DeploymentStore, 'instances'>
  readonly instances: Pick<InstanceControl, 'isAdopted'>
  readonly usageOf: (handle: Handle) => Promise<Usage>
  readonly limitsOf: (projectId: string) => Promise<Limits>
  readonly logger: Pick<Logger, 'warn'>
}): MeasureInstances {
  return async (signal) => {
    const byRelease = Map.groupBy(await store.instances.all(), ({ deployment_id }) => deployment_id)
    const limits = new Map<string, Limits>()
    const measured: MeasuredInstance[] = []
    for (const row of await store.rows.running()) {
      const most = limits.get(row.project_id) ?? (await limitsOf(row.project_id))
      limits.set(row.project_id, most)
      for (const { type, number, handle } of [...firstOf(row), ...(byRelease.get(row.id) ?? [])]) {
        if (signal.aborted) return measured
        if (!instances.isAdopted(handle)) continue
        // An unreachable runtime affects only its apps.
        const usage = await usageOf(handle).catch((error: unknown) => {
          logger.warn({ err: error, deployment: row.id }, 'an instance could not be measured')
          return null
        })
        if (usage === null) continue
        measured.push({
          appId: row.app_id,
          deploymentId: row.id,
          name: `${type}.${number}`,
          used: usage.processes === 0 ? null : usage,
          limits: withLimits({ limits: most }, row.build_plan?.processes?.[type] ?? {}).limits,
        })
      }
    }
    return measured
  }
}

const firstOf = ({ instance }: DeploymentRow): { type: string; number: number; handle: Handle }[] =>
  instance === null ? [] : [{ type: web, number: firstNumber(instance), handle: instance }]
