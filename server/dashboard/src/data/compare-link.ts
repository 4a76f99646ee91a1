/** Hosts that can compare two commits, with the part of the path between the repository and the commits. */
const comparisons: ReadonlyMap<string, string> = new Map([
  ['github.com', '/compare/'],
  ['gitlab.com', '/-/compare/'],
  ['codeberg.org', '/compare/'],
])

/** The first labels of hosts that run the same software. */
const namedAfter: readonly (readonly [string, string])[] = [
  ['gitlab.', '/-/compare/'],
  ['forgejo.', '/compare/'],
  ['gitea.', '/compare/'],
]

/**
 * Returns the address of a repository's page with the changes between two commits; null for other hosts and without
 * https.
 */
export function compareLink(gitUrl: string | null, from: string, to: string): string | null {
  if (gitUrl === null || !URL.canParse(gitUrl)) return null
  const { protocol, host, pathname } = new URL(gitUrl)
  const compare = comparisons.get(host) ?? namedAfter.find(([name]) => host.startsWith(name))?.[1]
  const repository = pathname.replace(/\/+$/, '').replace(/\.git$/, '')
  const isCommit = (hash: string) => /^[0-9a-f]{40,64}$/.test(hash)
  if (protocol !== 'https:' || compare === undefined || !isCommit(from) || !isCommit(to)) return null
  return `https://${host}${repository}${compare}${from}...${to}`
}
