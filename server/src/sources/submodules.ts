export interface Submodule {
  readonly path: string
  readonly url: string
}

/** Parses the output of `git config --list -z` for a `.gitmodules`. Skips entries without a path or an address. */
export function parseGitmodules(listed: string): Submodule[] {
  const found = new Map<string, { path?: string; url?: string }>()
  for (const entry of listed.split('\0')) {
    const [, name, key, value] = /^submodule\.([\s\S]+)\.(path|url)\n([\s\S]*)$/.exec(entry) ?? []
    if (name === undefined || value === undefined) continue
    found.set(name, { ...found.get(name), [key === 'path' ? 'path' : 'url']: value })
  }
  return [...found.values()].flatMap(({ path, url }) =>
    path === undefined || url === undefined ? [] : [{ path, url }],
  )
}

/**
 * Returns the address of a submodule. An address that begins with `./` or `../` is relative to the parent's address
 * (gitmodules(5)); null when the parent has none.
 */
export function submoduleUrl(parent: string, url: string): string
export function submoduleUrl(parent: string | null, url: string): string | null
export function submoduleUrl(parent: string | null, url: string): string | null {
  if (!/^\.\.?\//.test(url)) return url
  if (parent === null) return null
  let base = parent.replace(/\/+$/, '')
  let rest = url
  for (let step = /^\.\.?\/+/.exec(rest)?.[0]; step !== undefined; step = /^\.\.?\/+/.exec(rest)?.[0]) {
    // In the scp form (user@host:path) the path begins after the colon.
    if (step.startsWith('..')) base = base.replace(/(^.*:|)[^/:]*$|\/[^/]*$/, '$1')
    rest = rest.slice(step.length)
  }
  return base.endsWith(':') ? base + rest : `${base}/${rest}`
}
