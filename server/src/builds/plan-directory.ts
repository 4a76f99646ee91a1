import { detectors } from './detectors/index.ts'
import { installed, versionsOf } from './machine-tools.ts'
import { planBuild, recognising } from './plan.ts'
import type { PlanRequest } from './plan-request.ts'
import { readSourceTree } from './source/read-tree.ts'
import type { PlanResult } from './source/result.ts'
import { variableFiles } from './source/sample-variables.ts'

/**
 * Decides how the source tree in a folder is built and started.
 *
 * @param request.root a folder in it
 */
export async function planDirectory(directory: string, request: PlanRequest): Promise<PlanResult> {
  const { root } = request
  const names = [...variableFiles, ...detectors.flatMap(({ files }) => files)]
  const tools = detectors.flatMap((detector) => detector.tools.map(({ program }) => program))
  const [tree, programs] = await Promise.all([readSourceTree(directory, names, root), installed(tools)])
  const used = recognising(tree, detectors, { programs, root }).flatMap((detector) => detector.tools)
  const versions = await versionsOf(used.filter(({ program }) => programs.has(program)))
  return planBuild(tree, detectors, { ...request, programs, versions, isWhole: true })
}
