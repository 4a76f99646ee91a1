import type { ReleaseRef } from '../runtime.ts'

/*
 * The labels and names by which a server finds again what it has made in an engine, which others use as well. Nothing without
 * the label of this server is listed, changed or removed.
 */

/** The id of the data directory of the server that has made it. */
export const serverLabel = 'app.fairlead.server'
export const appLabel = 'app.fairlead.app'
export const releaseLabel = 'app.fairlead.release'
/** The project whose network a container is in, and that a network is of. */
export const projectLabel = 'app.fairlead.project'
/** The runtime's own name of the instance that a container is: the id of its release for one that was started alone. Not `web.1`. */
export const unitLabel = 'app.fairlead.instance'
/** The container of the instance that a one-off command belongs to, or what a container is for that nothing runs in. */
export const commandLabel = 'app.fairlead.command'
/** The server that waits for such a container: without it, the container is left over. */
export const waiterLabel = 'app.fairlead.waiter'

/** The labels of everything that belongs to a release. */
export const labelsOf = (server: string, { id, appId }: ReleaseRef): Readonly<Record<string, string>> => ({
  [serverLabel]: server,
  [appLabel]: appId,
  [releaseLabel]: id,
})

/** All labels of containers without a value. Those that a container does not set itself are its image's, which anybody may have made. */
export const noLabels: Readonly<Record<string, string>> = Object.fromEntries(
  [serverLabel, appLabel, releaseLabel, projectLabel, unitLabel, commandLabel, waiterLabel].map((label) => [label, '']),
)

/** The engine's filter for things with these labels; a null stands for any value. */
export const labelFilter = (
  labels: Readonly<Record<string, string | null>>,
): { readonly label: readonly string[] } => ({
  label: Object.entries(labels).map(([name, value]) => (value === null ? name : `${name}=${value}`)),
})

/** The repositories of the images of a server, as a pattern and as the beginning of their names. */
const repositories = (server: string): string => `fairlead/${server.toLowerCase()}/`

/**
 * The name of the image that a release starts from: `fairlead/<server>/<app>:<release>`. The image is kept as long as it has
 * this name, so that a rollback needs no registry.
 */
export const imageOf = (server: string, { id, appId }: ReleaseRef): string =>
  `${repositories(server)}${appId.toLowerCase()}:${id.toLowerCase()}`

/** The engine's filter for the images of all releases of a server, or of those of one app. */
export const imageFilter = (server: string, appId = '*'): { readonly reference: readonly string[] } => ({
  reference: [`${repositories(server)}${appId.toLowerCase()}`],
})

/** Returns the release that an image was named for; null for the name of another image. */
export function releaseOfImage(server: string, name: string): ReleaseRef | null {
  if (!name.startsWith(repositories(server))) return null
  const [appId = '', id = '', ...rest] = name.slice(repositories(server).length).split(':')
  return appId === '' || id === '' || rest.length > 0 ? null : { id, appId }
}
