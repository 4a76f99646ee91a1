/** Stands in for `cosmiconfig` in the programs: there is never a file. */
export const cosmiconfigSync = (): { search(): null } => ({ search: () => null })
