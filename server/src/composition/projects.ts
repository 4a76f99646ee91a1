import type { HandlersOf } from '../http/call.ts'
import { projectHandlers } from '../projects/handlers.ts'
import { createProjects, type ProjectsDependencies } from '../projects/projects.ts'
import type { Composition } from './composition.ts'

export function composeProjects(
  { config, state }: Composition,
  given: Omit<ProjectsDependencies, 'database' | 'regions' | 'defaultRegion' | 'plans'>,
): HandlersOf<'projects'> {
  const { regions, defaultRegion, plans } = config
  return projectHandlers(createProjects({ ...given, database: state.db, regions, defaultRegion, plans }))
}
