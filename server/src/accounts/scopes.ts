import { type Scope, scopeResources } from '../contract/routes.ts'

const read: readonly Scope[] = scopeResources.map((resource): Scope => `${resource}:read`)
const write: readonly Scope[] = scopeResources.map((resource): Scope => `${resource}:write`)

/** Named sets of scopes. `deploy` is what a pipeline needs: it deploys into projects that others make. */
export const presets = {
  full: [...read, ...write],
  read,
  deploy: ['projects:read', 'deployments:read', 'deployments:write'],
} as const satisfies Record<string, readonly Scope[]>

export type Preset = keyof typeof presets

export function isPreset(value: string): value is Preset {
  return Object.hasOwn(presets, value)
}
