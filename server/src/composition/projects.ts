import type { HandlersOf } from '../http/call.ts'
import { projectHandlers } from '../projects/handlers.ts'
import { createProjects, type ProjectsDependencies, type ResourceCounts } from '../projects/projects.ts'
import type { Composition } from './composition.ts'

export function composeProjects(
  { config, state }: Composition,
  given: Pick<ProjectsDependencies, 'tierOf' | 'totals' | 'trafficOf'> & ResourceCounts,
): HandlersOf<'projects'> {
  const { regions, defaultRegion, plans } = config
  const { tierOf, totals, trafficOf, ...counts } = given
  return projectHandlers(
    createProjects({
      ...{ tierOf, totals, trafficOf, counts, regions, defaultRegion, plans },
      database: state.db,
    }),
  )
}
