import { constants } from 'node:fs'
import { access } from 'node:fs/promises'
import { join } from 'node:path'
import { SYSTEM_FOLDERS } from '../platform/disk/folders.ts'
import { detectors } from './detectors/index.ts'
import { type PlanOptions, planBuild } from './plan.ts'
import { readSourceTree } from './source/read-tree.ts'
import type { PlanResult } from './source/result.ts'

/** Decides how the source tree in a folder is built and started. */
export async function planDirectory(directory: string, options: Pick<PlanOptions, 'nodeVersion'>): Promise<PlanResult> {
  const names = detectors.flatMap(({ files }) => files)
  const tools = detectors.flatMap((detector) => detector.tools.map(({ program }) => program))
  const [tree, programs] = await Promise.all([readSourceTree(directory, names), installed(tools)])
  return planBuild(tree, detectors, { ...options, programs })
}

/** Looks each time, so that a program that the operator installs is there for the next deployment. */
async function installed(programs: readonly string[]): Promise<ReadonlySet<string>> {
  const found = await Promise.all(
    programs.map(async (program) => {
      const looks = SYSTEM_FOLDERS.map((folder) => access(join(folder, program), constants.X_OK))
      return (await Promise.allSettled(looks)).some(({ status }) => status === 'fulfilled') ? [program] : []
    }),
  )
  return new Set(found.flat())
}
