import coerce from 'semver/functions/coerce.js'
import satisfies from 'semver/functions/satisfies.js'
import validRange from 'semver/ranges/valid.js'
import { failed, type PlanFailure, quote } from '../result.ts'
import type { Tool } from './detector.ts'

export function debianTool(language: string, program: string, packages: string, version?: Tool['version']): Tool {
  const code = `${program.replaceAll('-', '_')}_missing`
  const message = `This app needs ${language}, but the server has no ${program}: ask its operator to install it (Debian: apt-get install ${packages}).`
  return { program, packages, missing: { code, message }, ...(version === undefined ? {} : { version }) }
}

export interface AskedVersion {
  readonly language: string
  /** The program whose version on the machine counts. */
  readonly program: string
  readonly from: string
  readonly text: string
  /** The request as a `semver` range. */
  readonly range: string
}

type Versions = ReadonlyMap<string, string>

/**
 * Returns the failure for an app that cannot run on the machine's version; null if it can, or if the version is
 * unknown.
 */
export function refuseVersion(asked: AskedVersion, versions: Versions): { ok: false; failure: PlanFailure } | null {
  const there = differing(asked, versions)
  if (there === null) return null
  const { language, program, from, text } = asked
  const message = `${from} asks for ${language} ${quote(text)}, but this server has ${language} ${there}: change ${from}, or ask the server's operator for another ${program}.`
  return failed('unsupported_version', message)
}

/** Returns a note for the build log about a version that may or may not work; none for the requested version. */
export function noteVersion(asked: AskedVersion, versions: Versions): string[] {
  const there = differing(asked, versions)
  if (there === null) return []
  const { language, from, text } = asked
  return [`warning: ${from} asks for ${language} ${quote(text)}; this server has ${language} ${there}, which is used.`]
}

/**
 * Returns notes for the build log about versions in files such as `.ruby-version`.
 *
 * @param asked the versions as written; undefined versions are left out
 * @param rangeOf returns the range for a version
 */
export function noteVersionFiles(
  language: Pick<AskedVersion, 'language' | 'program'>,
  asked: readonly { readonly from: string; readonly text: string | undefined }[],
  versions: Versions,
  rangeOf: (text: string) => string = releaseOf,
): string[] {
  return asked.flatMap(({ from, text }) =>
    text === undefined ? [] : noteVersion({ ...language, from, text, range: rangeOf(text) }, versions),
  )
}

/** The time to parse a range grows with its length. */
const longestRange = 500

/** Returns the machine's version if the request does not allow it; otherwise null. */
function differing({ program, range }: AskedVersion, versions: Versions): string | null {
  const there = versions.get(program)
  const version = coerce(there)
  if (there === undefined || version === null || range.length > longestRange || validRange(range) === null) return null
  return satisfies(version, range) ? null : there
}

/** Returns the first version in a text as a range of its minor release: `1.22.1` stands for all of 1.22. */
function releaseOf(text: string): string {
  const [, major, minor] = /(\d+)(?:\.(\d+))?/.exec(text) ?? []
  if (major === undefined) return '*'
  return minor === undefined ? `${major}.x` : `${major}.${minor}.x`
}
