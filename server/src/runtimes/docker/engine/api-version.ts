/*
 * The version of the engine's API that is spoken. Each engine knows a range of versions: that of Debian 12 ends at 1.41,
 * and current ones begin above it, so that no fixed version suits all.
 */

/** The first version with all that Fairlead uses. */
const oldest = '1.41'
/** The last version whose changes were read. */
const newest = '1.51'

export interface VersionRange {
  readonly ApiVersion: string
  readonly MinAPIVersion?: string
}

/** Returns the newest version that the engine and Fairlead know; null when there is none. */
export function commonVersion({ ApiVersion: last, MinAPIVersion: first = oldest }: VersionRange): string | null {
  const chosen = compare(last, newest) < 0 ? last : newest
  const lowest = compare(first, oldest) > 0 ? first : oldest
  return compare(chosen, lowest) < 0 ? null : chosen
}

/** Tells an operator which engine is needed. */
export const neededVersion = `an engine whose API has a version from ${oldest} to ${newest} (Docker 20.10 or newer)`

function compare(a: string, b: string): number {
  const [x, y] = [a, b].map((version) => version.split('.').map(Number))
  return (x?.[0] ?? 0) - (y?.[0] ?? 0) || (x?.[1] ?? 0) - (y?.[1] ?? 0)
}
