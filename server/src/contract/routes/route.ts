/**
 * The route of an operation of /v1: plain data without zod, so that the typed client stays small. Its schemas are in
 * `resources/` under the same name.
 */
export interface Route {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  /** Relative to the base address, in the specification's notation (`/projects/:project_id`). */
  readonly path: `/${string}`
  readonly access: Access
  /** The success status: 200 for reads and actions, 201 for creations, 204 for deletions. */
  readonly status: 200 | 201 | 204
  /** Accepts `limit` and `cursor`, and links the next page in a `Link` header. */
  readonly list?: true
  /** Answers with something other than JSON. */
  readonly text?: true
  /**
   * The media type of the stream of bytes that it accepts instead of a JSON body. A stream takes too long to hold a
   * transaction meanwhile.
   */
  readonly upload?: 'multipart/form-data' | 'application/x-git-bundle'
  /**
   * Waits for other machines, which takes too long to hold a transaction meanwhile. It makes its changes in transactions of
   * its own.
   */
  readonly waits?: true
  /** Refuses keys that are bound to projects. */
  readonly wholeAccount?: true
}

/** The resources that permissions to read and to write are given for. */
export const scopeResources = ['projects', 'deployments', 'databases', 'storage', 'webhooks'] as const
/**
 * `runs:write` is apart: a command sees the secret variables of its app, which no other permission shows. Who reads deployments
 * reads runs.
 */
export type Scope = `${(typeof scopeResources)[number]}:${'read' | 'write'}` | 'runs:write'

/** All permissions. */
export const scopes: readonly Scope[] = [
  ...scopeResources.flatMap((resource): Scope[] => [`${resource}:read`, `${resource}:write`]),
  'runs:write',
]

/** The scope that a key must have; `any` for every valid key; `user` for signed-in users only. */
export type Access = Scope | 'any' | 'user'
