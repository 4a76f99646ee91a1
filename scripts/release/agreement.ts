/** A release, as found in the repository. */
export interface Release {
  /** Such as `v1.2.3`. */
  readonly tag: string
  /** Path of each manifest → its version. */
  readonly versions: Readonly<Record<string, string | undefined>>
  /** The version of the receiver that the server depends on. */
  readonly receiver: string | undefined
  readonly changelog: string
}

/** Returns why tag, packages and changelog do not belong together; nothing when they do. */
export function disagreements({ tag, versions, receiver, changelog }: Release): string[] {
  const [, version] = /^v(\d+\.\d+\.\d+)$/.exec(tag) ?? []
  if (version === undefined) return [`The tag ${tag} is not a version. Use one such as v1.2.3.`]
  const found: string[] = []
  for (const [path, own] of Object.entries(versions)) {
    if (own !== version) found.push(`${path} has version ${own}, and the tag is ${tag}. Set it to ${version}.`)
  }
  if (receiver !== version) {
    found.push(`server/package.json depends on version ${receiver} of the receiver. Set it to ${version}.`)
  }
  const notes = notesOf(changelog, version)
  if (notes === undefined) {
    found.push(`CHANGELOG.md has no section "## [${version}] - YYYY-MM-DD". Move the changes of "Unreleased" to one.`)
  } else if (notes === '') found.push(`The section of ${version} in CHANGELOG.md is empty. Say what has changed.`)
  return found
}

/** Returns the text below the heading of a version in a changelog; `undefined` when there is no such heading. */
export function notesOf(changelog: string, version: string): string | undefined {
  for (const section of changelog.split(/^## /m).slice(1)) {
    const [heading = '', ...lines] = section.split('\n')
    const [, named] = /^\[(.+)\] - \d{4}-\d\d-\d\d$/.exec(heading.trim()) ?? []
    if (named === version) return lines.join('\n').trim()
  }
  return undefined
}
