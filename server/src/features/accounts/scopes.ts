import type { Preset } from '../../contract/accounts.ts'
import { type Scope, scopes } from '../../contract/routes.ts'

export type { Preset } from '../../contract/accounts.ts'

export const allScopes = scopes

/** Named sets of scopes. `deploy` is for pipelines, which deploy into existing projects and run no commands there. */
export const presets: Readonly<Record<Preset, readonly Scope[]>> = {
  full: allScopes,
  read: allScopes.filter((scope) => scope.endsWith(':read')),
  deploy: ['projects:read', 'deployments:read', 'deployments:write'],
}

export function isPreset(value: string): value is Preset {
  return Object.hasOwn(presets, value)
}

export function isScope(value: string): value is Scope {
  return (allScopes as readonly string[]).includes(value)
}

export function presetOf(scopes: readonly Scope[]): Preset | null {
  const wanted = new Set(scopes)
  const found = Object.entries(presets).find(
    ([, preset]) => preset.length === wanted.size && preset.every((scope) => wanted.has(scope)),
  )
  return (found?.[0] as Preset | undefined) ?? null
}
