import { constants } from 'node:fs'
import { access } from 'node:fs/promises'
import { join } from 'node:path'
import { DeploymentError } from '../deployments/state/failure.ts'
import { SYSTEM_FOLDERS } from '../platform/disk/folders.ts'
import type { Plan } from '../runtimes/runtime.ts'
import { type PlanOptions, planRelease } from './plan.ts'
import { readSourceTree } from './read-tree.ts'

/**
 * How the code in `directory` is built and started. Rejects with a `DeploymentError` of the stage `plan` that says what
 * to do.
 */
export async function planFor(directory: string, options: Pick<PlanOptions, 'nodeVersion'>): Promise<Plan> {
  const hasPython = await isInstalled('python3')
  const planned = planRelease(await readSourceTree(directory), { ...options, hasPython })
  if (!planned.ok) throw new DeploymentError('plan', planned.failure.code, planned.failure.message)
  return planned.plan
}

/** Asked each time, so that what the operator installs is there for the next deployment. */
async function isInstalled(program: string): Promise<boolean> {
  const looks = await Promise.allSettled(SYSTEM_FOLDERS.map((folder) => access(join(folder, program), constants.X_OK)))
  return looks.some(({ status }) => status === 'fulfilled')
}
