import type { ReleaseRef } from '../runtime.ts'

/* Other programs use the engine, too. The server lists, changes and removes only objects with its label. */

/** The id of the data directory of the server that made the object. */
export const serverLabel = 'app.fairlead.server'
export const appLabel = 'app.fairlead.app'
export const releaseLabel = 'app.fairlead.release'
export const projectLabel = 'app.fairlead.project'
/** The instance's name in the runtime, not `web.1`: a single instance has the id of its release. */
export const unitLabel = 'app.fairlead.instance'
/** The container of the instance for a one-off command; the purpose for a container without processes. */
export const commandLabel = 'app.fairlead.command'
/** The server that waits for such a container. Without this label the container is left over. */
export const waiterLabel = 'app.fairlead.waiter'

export const labelsOf = (server: string, { id, appId }: ReleaseRef): Readonly<Record<string, string>> => ({
  [serverLabel]: server,
  [appLabel]: appId,
  [releaseLabel]: id,
})

/**
 * All labels of containers with empty values. A container inherits the labels that it does not set from its image,
 * which anybody may have made.
 */
export const noLabels: Readonly<Record<string, string>> = Object.fromEntries(
  [serverLabel, appLabel, releaseLabel, projectLabel, unitLabel, commandLabel, waiterLabel].map((label) => [label, '']),
)

/** The filter of the engine for objects with these labels; null stands for any value. */
export const labelFilter = (
  labels: Readonly<Record<string, string | null>>,
): { readonly label: readonly string[] } => ({
  label: Object.entries(labels).map(([name, value]) => (value === null ? name : `${name}=${value}`)),
})

const repositories = (server: string): string => `fairlead/${server.toLowerCase()}/`

/**
 * The name of the image of a release: `fairlead/<server>/<app>:<release>`. The engine keeps the image as long as it has
 * this name, so a rollback needs no registry.
 */
export const imageOf = (server: string, { id, appId }: ReleaseRef): string =>
  `${repositories(server)}${appId.toLowerCase()}:${id.toLowerCase()}`

export const imageFilter = (server: string, appId = '*'): { readonly reference: readonly string[] } => ({
  reference: [`${repositories(server)}${appId.toLowerCase()}`],
})

/** Returns the release in the name of an image; null for a foreign name. */
export function releaseOfImage(server: string, name: string): ReleaseRef | null {
  if (!name.startsWith(repositories(server))) return null
  const [appId = '', id = '', ...rest] = name.slice(repositories(server).length).split(':')
  return appId === '' || id === '' || rest.length > 0 ? null : { id, appId }
}
