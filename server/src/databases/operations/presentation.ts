import type { ResponseBody } from '../../contract/operations.ts'
import { type Plans, planNamed } from '../../platform/plans.ts'
import type { Engine } from '../engines/engine.ts'
import { databaseLimits } from '../plan-limits.ts'
import type { DatabaseRow } from '../tables.ts'
import { usageOf } from './usage.ts'

export type Detail = ResponseBody<'databases.get'>

export function listItem({ id, name, version, plan, status, created_at }: DatabaseRow) {
  return { id, name, type: 'postgresql' as const, version, plan, status, created_at: created_at.toISOString() }
}

/** Returns the details of a database with its present usage. */
export async function detailOf(
  { engine, plans }: { readonly engine: Pick<Engine, 'name' | 'open'>; readonly plans: Plans },
  row: DatabaseRow,
): Promise<Detail> {
  const limits = databaseLimits(planNamed(plans, row.plan))
  return {
    ...listItem(row),
    project_id: row.project_id,
    access: row.engine === 'embedded' ? 'local' : 'network',
    ...(await usageOf(engine, row)),
    max_size_bytes: limits.bytes,
    max_connections: limits.connections,
    read_only: row.restriction !== 'none',
    failure: row.failure,
    restorable_until: row.drop_at?.toISOString() ?? null,
  }
}
