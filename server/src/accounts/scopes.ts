import type { Preset } from '../contract/accounts.ts'
import { type Scope, scopes } from '../contract/routes.ts'

export type { Preset } from '../contract/accounts.ts'

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

/** Returns the preset with exactly these scopes, or `null`. */
export function presetOf(scopes: readonly Scope[]): Preset | null {
  const wanted = new Set(scopes)
  const found = Object.entries(presets).find(
    ([, preset]) => preset.length === wanted.size && preset.every((scope) => wanted.has(scope)),
  )
  return (found?.[0] as Preset | undefined) ?? null
}

/** The scopes of a key in its row. */
export interface StoredScopes {
  /** The scopes without `runs:write`, which older servers do not know. */
  readonly scopes: Scope[]
  /** Null for a key from an older version. */
  readonly may_run: boolean | null
}

export function storedScopes(scopes: readonly Scope[]): StoredScopes {
  return { scopes: scopes.filter((scope) => scope !== run), may_run: scopes.includes(run) }
}

/** Returns all scopes of a key. A key from an older version with every scope also gets `runs:write`. */
export function scopesOfRow({ scopes, may_run }: StoredScopes): readonly Scope[] {
  const mayRun = may_run ?? allScopes.every((scope) => scope === run || scopes.includes(scope))
  return mayRun ? [...scopes, run] : scopes
}

const run: Scope = 'runs:write'
