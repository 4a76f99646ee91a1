import { ApiError } from '../contract/errors.ts'
import type { Scope } from '../contract/routes.ts'

/** Who asks: an API key of an account, as found by authentication. */
export interface Principal {
  readonly accountId: string
  readonly keyId: string
  readonly scopes: ReadonlySet<Scope>
  /** The projects that the key is bound to; `null` for all of the account. */
  readonly projectIds: ReadonlySet<string> | null
}

/** A project that the principal may see: the way to everything inside it. */
export interface TenantProject {
  readonly id: string
  readonly accountId: string
}

/** Whether the principal may touch a project of its account, judged by the key alone. */
export function mayUseProject(principal: Principal, projectId: string): boolean {
  return principal.projectIds === null || principal.projectIds.has(projectId)
}

/** Throws `forbidden` unless the key holds the scope and is not bound to other projects. */
export function authorize(principal: Principal, scope: Scope, projectId: string | undefined): void {
  if (!holdsScope(principal, scope)) {
    throw new ApiError('forbidden', `This API key lacks the permission ${scope}.`, { scope })
  }
  if (projectId !== undefined && !mayUseProject(principal, projectId)) {
    throw new ApiError('forbidden', 'This API key is bound to other projects.')
  }
}

function holdsScope(principal: Principal, scope: Scope): boolean {
  // Write implies read.
  return principal.scopes.has(scope) || principal.scopes.has(scope.replace(/:read$/, ':write') as Scope)
}
