import satisfies from 'semver/functions/satisfies.js'
import maxSatisfying from 'semver/ranges/max-satisfying.js'
import minVersion from 'semver/ranges/min-version.js'
import type { ToolName, ToolRequest } from '../../../platform/toolchain.ts'
import { endOfLife } from './node-releases.ts'
import { titles } from './packages.ts'

/** A version of a tool; null for the server's own. */
export interface Choice {
  readonly version: string | null
  /** Sentences for the build log. */
  readonly notes: readonly string[]
}

/** False for versions of Node whose packages hold an archive in place of the program. */
export const hasProgram = (tool: ToolName, version: string): boolean =>
  tool !== 'node' || satisfies(version, '>=4.1.0', { includePrerelease: true })

/** Returns the server's own version if the request allows it. */
export const ownThatFits = ({ range }: ToolRequest, own: readonly string[]): string | undefined =>
  own.find((version) => satisfies(version, range))

/**
 * Chooses among the versions of the registry: the newest in the range; for a version that does not exist, the newest
 * release of the nearest newer major. Null when there is nothing as new.
 *
 * @param versions of the registry
 * @param own the server's own versions
 */
export function chooseFrom(
  request: ToolRequest,
  versions: readonly string[],
  own: readonly string[],
  now: Date,
): Choice | null {
  const { tool, range } = request
  const usable = versions.filter((version) => hasProgram(tool, version))
  const found = maxSatisfying([...usable], range)
  if (found !== null) return { version: found, notes: [reason(request, found), ...warnings(tool, found, now)] }
  const newer = nearestNewer(tool, [...usable, ...own], range)
  if (newer === null) return null
  const isOwn = own.includes(newer)
  const instead = `Warning: ${asks(request)}, which the package registry does not have. ${titles[tool]} ${newer} is used instead.`
  return { version: isOwn ? null : newer, notes: [instead, ...warnings(tool, newer, now)] }
}

/** Chooses without the registry among the versions that were downloaded before. Null when none is in the range. */
export function chooseDownloaded(request: ToolRequest, downloaded: readonly string[], now: Date): Choice | null {
  const { tool, range } = request
  const found = maxSatisfying([...downloaded], range)
  if (found === null) return null
  return { version: found, notes: [reason(request, found), ...warnings(tool, found, now)] }
}

/** Odd majors of Node are never supported for long, so that they count only where a range names them. */
function nearestNewer(tool: ToolName, versions: readonly string[], range: string): string | null {
  const least = minVersion(range)
  if (least === null) return null
  const newer = versions.filter((version) => satisfies(version, `>=${least.version}`))
  const majors = newer.map(majorOf).filter((major) => tool !== 'node' || major % 2 === 0)
  return majors.length === 0 ? null : maxSatisfying(newer, `${Math.min(...majors)}`)
}

const majorOf = (version: string): number => Number(version.split('.')[0])

const warnings = (tool: ToolName, version: string, now: Date): string[] => {
  const warning = tool === 'node' ? endOfLife(version, now) : null
  return warning === null ? [] : [warning]
}

const reason = (request: ToolRequest, version: string): string =>
  request.range === '*'
    ? `${titles[request.tool]} ${version} is used, because of ${request.from}.`
    : `${titles[request.tool]} ${version} is used: ${asks(request)}.`

/** Says who asks for what. */
export const asks = ({ tool, range, from }: ToolRequest): string =>
  range === '*' ? `${from} needs ${titles[tool]}` : `${from} asks for ${titles[tool]} ${range}`
