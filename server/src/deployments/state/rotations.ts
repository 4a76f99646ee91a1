import { isSite, web } from './processes.ts'
import type { DeploymentRow, InstanceRow } from './tables.ts'

/** True for an instance that has the variables of before a rotation. One with later variables was started since the row was read. */
export const isOutdated = (
  { variable_origins }: Pick<DeploymentRow, 'variable_origins'>,
  { handle }: Pick<InstanceRow, 'handle'>,
): boolean => (handle.rotations ?? 0) < (variable_origins.rotations ?? 0)

/** Returns the first instance of a release if it has the variables of before a rotation. A static site has none. */
export function outdatedFirst(
  row: Pick<DeploymentRow, 'instance' | 'build_plan' | 'variable_origins'>,
): Pick<InstanceRow, 'type' | 'handle'>[] {
  const { instance: handle, build_plan } = row
  if (handle === null || build_plan === null || isSite(build_plan)) return []
  return isOutdated(row, { handle }) ? [{ type: web, handle }] : []
}
