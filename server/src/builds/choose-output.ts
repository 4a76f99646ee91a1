import { realpath } from 'node:fs/promises'
import type { BuildPlan, StartOutput } from './build-plan.ts'
import { resolveWithin } from './source/read-tree.ts'
import { failed, type Result } from './source/result.ts'

/**
 * Returns the plan with the start that fits what the build has made; a plan without outputs is returned as it is. A link may
 * lead to an output, but not out of the sources.
 *
 * @param directory of the sources, after the build
 */
export async function chooseOutput(directory: string, plan: BuildPlan): Promise<Result<BuildPlan>> {
  const { outputs, ...rest } = plan
  if (outputs === undefined) return { ok: true, value: plan }
  const root = await realpath(directory)
  for (const { paths, start } of outputs) {
    for (const path of paths)
      if ((await resolveWithin(root, path)) !== null) return { ok: true, value: { ...rest, start } }
  }
  return failed('no_build_output', describeMissing(outputs))
}

function describeMissing(outputs: readonly StartOutput[]): string {
  const paths = outputs.flatMap((output) => output.paths.slice(0, 1)).join(', ')
  const advice = [...new Set(outputs.flatMap((output) => output.advice ?? []))]
  return [
    `The build made nothing that can go live: there is none of ${paths}.`,
    ...advice,
    'Where the build puts it elsewhere, name it in fairlead.json, such as "start": ["fairlead-static", "dist"] or ["node", "server.js"].',
  ].join(' ')
}
