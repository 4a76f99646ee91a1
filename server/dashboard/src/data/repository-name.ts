/** Returns the name of a repository, `OWNER/NAME`, from its address on the web, for git, or from the name itself. */
export function repositoryName(given: string): string {
  const path = given
    .trim()
    .replace(/^[a-z+]+:\/\/[^/]+\//i, '')
    .replace(/^[^/@\s]+@[^:/]+:/, '')
    .replace(/^[\w.-]+\.[a-z]{2,}\//i, '')
  return path
    .replace(/[?#].*$/, '')
    .replace(/\/+$/, '')
    .replace(/\.git$/, '')
}
