import type { Detector } from './detectors/detector.ts'
import { installed, versionsOf } from './machine-tools.ts'

/** A language that apps can be written in, besides those that the server brings, and its programs on this machine. */
export interface Language {
  readonly name: string
  /** Such as `ruby 3.1.7`. */
  readonly there: readonly string[]
  /** Such as `bundle (Debian: bundler)`. */
  readonly missing: readonly string[]
}

/** Lists the languages of the detectors that need programs of the machine. */
export async function languagesOf(detectors: readonly Detector[]): Promise<readonly Language[]> {
  const tools = detectors.flatMap((detector) => detector.tools)
  const programs = await installed(tools.map(({ program }) => program))
  const versions = await versionsOf(tools.filter(({ program }) => programs.has(program)))
  return detectors
    .filter((detector) => detector.tools.length > 0)
    .map(({ name, tools: own }) => ({
      name,
      there: own
        .filter(({ program }) => programs.has(program))
        .map(({ program }) => [program, versions.get(program)].filter((word) => word !== undefined).join(' ')),
      missing: own
        .filter(({ program, isExtra }) => !programs.has(program) && isExtra !== true)
        .map(({ program, packages }) => (packages === undefined ? program : `${program} (Debian: ${packages})`)),
    }))
}
