import valid from 'semver/functions/valid.js'
import intersects from 'semver/ranges/intersects.js'
import validRange from 'semver/ranges/valid.js'
import type { ToolRequest } from '../../../platform/toolchain.ts'
import type { PackageJson } from '../../package-json.ts'
import { quote } from '../../result.ts'
import type { SourceTree } from '../../tree.ts'
import { toolVersion, versionIn } from '../../version-files.ts'

export const versionFiles = ['.nvmrc', '.node-version', '.tool-versions', '.bun-version', '.dvmrc', '.npmrc'] as const

export interface VersionSource {
  readonly files: SourceTree
  readonly manifest: PackageJson | undefined
}

interface Asked {
  readonly value: string
  readonly from: string
}

/** The major versions of Node's long-term support releases, by code name, as in nvm. */
const ltsNames: Readonly<Record<string, string>> = {
  argon: '4',
  boron: '6',
  carbon: '8',
  dubnium: '10',
  erbium: '12',
  fermium: '14',
  gallium: '16',
  hydrogen: '18',
  iron: '20',
  jod: '22',
  krypton: '24',
}
const ltsMajors = '4 || 6 || 8 || 10 || 12 || 14 || 16 || 18 || 20 || 22 || 24 || 26'
const anyNames = new Set(['', '*', 'x', 'node', 'latest', 'current', 'stable', 'system'])
const ltsAliases = new Set(['lts', 'lts/*', 'lts-*'])

/**
 * Chooses the range of Node versions. A place with a full version takes precedence over a range, and a range over a
 * place that allows any version. Among equals the order is: `volta`, .node-version, .nvmrc, .tool-versions, .npmrc,
 * `devEngines`, `engines`, each in the app's folder before the top of the repository. Invalid versions are ignored, as
 * package managers do with `engines`.
 *
 * @param sources the app's folder, and the top of the repository if that is another folder
 */
export function askedNode(sources: readonly VersionSource[]): {
  readonly request: ToolRequest | null
  readonly notes: readonly string[]
} {
  const places = nodePlaces(sources).map((each) => ({ ...each, range: toRange(each.value) }))
  const notes = places.flatMap(({ value, from, range }) =>
    range === null
      ? [`Warning: ${from} names no version of Node that is known here (${quote(value)}). It is ignored.`]
      : [],
  )
  const known = places.flatMap(({ from, range }) => (range === null ? [] : [{ from, range, rank: rankOf(range) }]))
  const [chosen] = known.toSorted((a, b) => a.rank - b.rank)
  if (chosen === undefined || chosen.range === '*') return { request: null, notes }
  const { range, from } = chosen
  const against = known.filter((each) => each.from !== from && !intersects(each.range, range))
  return {
    request: { tool: 'node', range, from },
    notes: [
      ...notes,
      ...against.map(
        (each) => `Warning: ${each.from} asks for Node ${each.range}, but ${from} for ${range}, which counts.`,
      ),
    ],
  }
}

function nodePlaces(sources: readonly VersionSource[]): Asked[] {
  const inFiles = (name: string) => fromFile(sources, name)
  return [
    ...fromManifests(sources, '"volta.node"', ({ volta }) => volta.get('node')),
    ...inFiles('.node-version'),
    ...inFiles('.nvmrc'),
    ...fromToolVersions(sources, ['nodejs', 'node']),
    ...asked(
      sources,
      '"use-node-version" in .npmrc',
      (files) => /^[ \t]*use-node-version[ \t]*=[ \t]*(\S+)/m.exec(files.read('.npmrc') ?? '')?.[1],
    ),
    ...fromManifests(sources, '"devEngines.runtime"', ({ devEngines: { runtime } }) =>
      runtime?.name === 'node' ? runtime.version : undefined,
    ),
    ...fromManifests(sources, '"engines.node"', ({ engines }) => engines.get('node')),
  ]
}

/** Returns the value of a package.json field, in the app's folder or else at the top. */
export function fromManifests(
  sources: readonly VersionSource[],
  field: string,
  read: (manifest: PackageJson) => string | undefined,
): Asked[] {
  return sources.flatMap(({ manifest }) => {
    const value = manifest === undefined ? undefined : read(manifest)
    return value === undefined ? [] : [{ value: value.trim(), from: `${field} in package.json` }]
  })
}

/** Returns the versions in a file such as `.nvmrc`, in the app's folder and at the top. */
export function fromFile(sources: readonly VersionSource[], name: string): Asked[] {
  return asked(sources, name, (files) => versionIn(files, name))
}

/** Returns the versions of a program in `.tool-versions`, in the app's folder and at the top. */
export function fromToolVersions(sources: readonly VersionSource[], names: readonly string[]): Asked[] {
  return asked(sources, '.tool-versions', (files) => toolVersion(files, ...names))
}

function asked(
  sources: readonly VersionSource[],
  from: string,
  read: (files: SourceTree) => string | undefined,
): Asked[] {
  return sources.flatMap(({ files }) => {
    const value = read(files)
    return value === undefined ? [] : [{ value, from }]
  })
}

/** Returns the range for a version, an alias or a range; null for other texts. */
function toRange(value: string): string | null {
  const text = value.trim().toLowerCase()
  if (anyNames.has(text)) return '*'
  if (ltsAliases.has(text)) return ltsMajors
  const [, lts] = /^lts[/-](\w+)$/.exec(text) ?? []
  if (lts !== undefined) return ltsNames[lts] ?? null
  const version = text.replace(/^node(?:js)?[@ -]?(?=v?\d)/, '')
  return rangeOf(version)
}

/** Returns a version range as written, without a `v`; null for a text that is not a range. */
export function rangeOf(text: string): string | null {
  const range = text.replace(/^v(?=\d)/, '')
  if (range.length > 200 || validRange(range) === null) return null
  return validRange(range) === '*' ? '*' : range
}

const rankOf = (range: string): number => {
  if (valid(range) !== null) return 0
  return range === '*' || range === ltsMajors ? 2 : 1
}
