import { z } from 'zod'
import type { Declaration } from '../../../server/src/contract/declaration.ts'
import type { Route } from '../../../server/src/contract/routes.ts'
import type { TenantProject } from '../../../server/src/http/principal.ts'

/** An operation, in the three parts that `docs/extending.md` shows: its route, its declaration and its handler. */
export const route = {
  'projects.greet': { method: 'GET', path: '/projects/:project_id/greeting', access: 'projects:read', status: 200 },
} as const satisfies Record<string, Route>

export const declaration = {
  'projects.greet': {
    summary: 'Greet a project',
    description: 'Returns a greeting with the name of the project.',
    query: z.object({ language: z.enum(['en', 'de']).default('en') }),
    response: z.object({ greeting: z.string() }),
  },
} as const satisfies Record<string, Declaration>

interface Call {
  readonly project: TenantProject
  readonly query: z.output<(typeof declaration)['projects.greet']['query']>
}

export const handler: { 'projects.greet': (call: Call) => Promise<{ greeting: string }> } = {
  'projects.greet': async ({ project, query }) => ({
    greeting: `${query.language === 'de' ? 'Hallo' : 'Hello'}, ${project.name}!`,
  }),
}
