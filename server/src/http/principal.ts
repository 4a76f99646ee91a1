import { ApiError } from '../contract/errors.ts'
import type { Route, Scope } from '../contract/routes.ts'
import type { WorkflowRun } from '../contract/trust.ts'

/** An API key of an account, or a signed-in user. */
export interface Principal {
  readonly accountId: string
  /** The id of the key or the session. */
  readonly credentialId: string
  /** The name of the key, or the user's e-mail address. */
  readonly actor: { readonly type: 'key' | 'user'; readonly id: string; readonly name: string }
  readonly scopes: ReadonlySet<Scope>
  /** The projects that a key is bound to; `null` for all projects of the account. */
  readonly projectIds: ReadonlySet<string> | null
  /** The workflow run that the key was made for; `null` for all other keys and for users. */
  readonly workflow: WorkflowRun | null
  /** The rate limit of the account. Keys and sessions of an account are counted separately. */
  readonly requestsPerHour: number
}

/** A project of the principal's account. Everything in a project is reached through it. */
export interface TenantProject {
  readonly id: string
  readonly accountId: string
  readonly name: string
  readonly region: string
  readonly plan: string
  readonly createdAt: Date
}

/** True unless the principal is a key that is bound to other projects. */
export function mayUseProject(principal: Principal, projectId: string): boolean {
  return principal.projectIds === null || principal.projectIds.has(projectId)
}

/** Throws `forbidden` without the required access, and for a key that is bound to other projects. */
export function authorize(
  principal: Principal,
  { access, wholeAccount }: Pick<Route, 'access' | 'wholeAccount'>,
  projectId: string | undefined,
): void {
  if (access === 'user') {
    if (principal.actor.type === 'user') return
    throw new ApiError('forbidden', 'API keys cannot do this; sign in to the dashboard.')
  }
  if (access !== 'any' && !holdsScope(principal, access)) {
    throw new ApiError('forbidden', `This API key lacks the permission ${access}.`, { scope: access })
  }
  if (projectId !== undefined && !mayUseProject(principal, projectId)) {
    throw new ApiError('forbidden', 'This API key is bound to other projects.')
  }
  if (wholeAccount && principal.projectIds !== null) {
    throw new ApiError('forbidden', 'This API key is bound to its projects; this takes one for the whole account.')
  }
}

/** True when `authorize` does not throw. */
export function isAuthorized(...request: Parameters<typeof authorize>): boolean {
  try {
    authorize(...request)
    return true
  } catch {
    return false
  }
}

function holdsScope(principal: Principal, scope: Scope): boolean {
  // Write implies read.
  return principal.scopes.has(scope) || principal.scopes.has(scope.replace(/:read$/, ':write') as Scope)
}
