/*
 * The names of images that releases are made of. They are apart from those of releases, which are removed with these.
 */

const repository = (server: string): string => `fairlead-base/${server.toLowerCase()}`

/** @param key tells images of different contents apart */
export const systemName = (server: string, key: string): string => `${repository(server)}:system-${key}`
export const programsName = (server: string, key: string): string => `${repository(server)}:programs-${key}`

/** The engine's filter for all of them. */
export const baseFilter = (server: string): { readonly reference: readonly string[] } => ({
  reference: [repository(server)],
})

/** True for the name of one of them. */
export const isBaseName = (server: string, name: string): boolean => name.startsWith(`${repository(server)}:`)
