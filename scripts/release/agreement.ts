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
  const section = sectionOf(changelog, version)
  if (section === undefined)
    found.push(`CHANGELOG.md has no section "## [${version}]". Add the changes of the release.`)
  else if (section.notes === '') found.push(`The section of ${version} in CHANGELOG.md is empty. Say what has changed.`)
  if (section?.day === null) {
    found.push(`The section of ${version} in CHANGELOG.md has no date. Name it "## [${version}] - YYYY-MM-DD".`)
  }
  return found
}

/** Returns the text below the heading of a version in a changelog; `undefined` when there is no such heading. */
export const notesOf = (changelog: string, version: string): string | undefined => sectionOf(changelog, version)?.notes

/** @returns `day` is null while the heading has no date, as before the release */
function sectionOf(changelog: string, version: string): { day: string | null; notes: string } | undefined {
  for (const section of changelog.split(/^## /m).slice(1)) {
    const [heading = '', ...lines] = section.split('\n')
    const [, named, day = null] = /^\[(.+)\](?: - (\d{4}-\d\d-\d\d))?$/.exec(heading.trim()) ?? []
    if (named === version) return { day, notes: lines.join('\n').trim() }
  }
  return undefined
}
