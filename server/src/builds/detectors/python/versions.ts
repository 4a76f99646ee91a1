import { fieldsOf } from '../../json.ts'
import { failed, quote, type Result } from '../../result.ts'
import type { SourceTree } from '../../tree.ts'
import { toolVersion, versionIn } from '../../version-files.ts'

interface Asked {
  readonly text: string
  readonly from: string
  readonly spell: (version: string) => string
}

export interface ChosenPython {
  readonly program: string
  /** The version that uv installs, if uv creates the environment. */
  readonly brought?: string
  readonly notes: readonly string[]
}

/** The programs of Python versions besides the machine's default. */
export const EXTRA_PYTHONS: readonly string[] = Array.from({ length: 12 }, (_, at) => `python3.${at + 8}`)

/** Downloads Pythons, see https://docs.astral.sh/uv/. */
export const UV = 'uv'

/**
 * Chooses the Python version that the repository requests, by the first of `.python-version`, `runtime.txt`,
 * `.tool-versions`, the Pipfile and `requires-python`: the default Python of the machine if the range allows it, else
 * the newest installed Python that the range allows. If none fits, only `requires-python` decides, because the other
 * files mostly name the Python of a developer's machine. Otherwise uv installs a version.
 *
 * @param toml the parsed `pyproject.toml` and `Pipfile`
 * @param versions the versions of the machine's programs
 */
export function choosePython(
  app: SourceTree,
  toml: { readonly pyproject: unknown; readonly pipfile: unknown },
  versions: ReadonlyMap<string, string>,
): Result<ChosenPython> {
  const required = requiredVersion(toml.pyproject)
  const asked = pinnedVersion(app, toml.pipfile) ?? required
  if (asked === null) return { ok: true, value: { program: 'python3', notes: [] } }
  const there = ['python3', ...EXTRA_PYTHONS].flatMap((program) => {
    const release = releaseOf(versions.get(program))
    return release === undefined ? [] : [{ program, release }]
  })
  const allows = readRange(asked.text)
  if (allows === null || there.length === 0) {
    const note = `warning: ${asked.from} asks for Python ${quote(asked.text)}, which cannot be compared: the app runs on the python3 that is there.`
    return { ok: true, value: { program: 'python3', notes: [note] } }
  }
  const chosen = bestOf(there, allows)
  if (chosen !== undefined) {
    const note = `Python ${chosen.release.join('.')} runs the app: ${asked.from} asks for ${asked.text}.`
    return { ok: true, value: { program: chosen.program, notes: [note] } }
  }
  const allowed = required === null ? null : readRange(required.text)
  const instead = required === null || allowed === null ? undefined : bestOf(there, allowed)
  if (required !== null && instead !== undefined) {
    const note = `warning: ${asked.from} asks for Python ${quote(asked.text)}, which this server does not have. Python ${instead.release.join('.')} runs the app, as ${required.from} allows it (${quote(required.text)}).`
    return { ok: true, value: { program: instead.program, notes: [note] } }
  }
  const wanted = nearest(allows, there[0]?.release ?? [3, 0, 0])
  if (wanted === undefined || !versions.has(UV))
    return refuse(asked, { releases: there.map(({ release }) => release), wanted })
  const note = `uv brings Python ${wanted}: ${asked.from} asks for ${asked.text}.`
  return { ok: true, value: { program: UV, brought: wanted, notes: [note] } }
}

interface Installed {
  readonly program: string
  readonly release: Release
}

function bestOf(there: readonly Installed[], allows: (release: Release) => boolean): Installed | undefined {
  const allowed = there.filter(({ release }) => allows(release))
  const [newest] = allowed.toSorted((a, b) => compare(b.release, a.release))
  return allowed.find(({ program }) => program === 'python3') ?? newest
}

/**
 * Returns the nearest allowed version, such as `3.12`: the next version after the machine's, else the last version
 * before it.
 */
function nearest(allows: (release: Release) => boolean, [, minor]: Release): string | undefined {
  // A range most likely allows late patch releases.
  const minors = EXTRA_PYTHONS.map((_, at) => at + 8).filter((each) =>
    [0, 99].some((patch) => allows([3, each, patch])),
  )
  const wanted = minors.find((each) => each >= minor) ?? minors.at(-1)
  return wanted === undefined ? undefined : `3.${wanted}`
}

function releaseOf(version: string | undefined): Release | undefined {
  const [, major, minor, patch] = /^(\d+)\.(\d+)\.(\d+)/.exec(version ?? '') ?? []
  return major === undefined ? undefined : [Number(major), Number(minor), Number(patch)]
}

/** Returns a failure with advice for this server: no distribution has a package for every version. */
function refuse(
  { text, from, spell }: Asked,
  { releases, wanted }: { readonly releases: readonly Release[]; readonly wanted: string | undefined },
) {
  const there = [...new Set(releases.map((release) => release.join('.')))].join(', ')
  const own = releases[0]?.slice(0, 2).join('.') ?? '3'
  const range = from === PYPROJECT ? '' : `, or name the versions that it runs on as requires-python in ${PYPROJECT}`
  const change = `Write ${spell(own)} in ${from} if the app runs on that${range}`
  const bring =
    wanted === undefined
      ? ''
      : ` Otherwise ask the server's operator to install uv in /usr/local/bin (https://docs.astral.sh/uv/): it brings Python ${wanted}.`
  return failed(
    'unsupported_python',
    `${from} asks for Python ${quote(text)}, and the server has ${there}. ${change}.${bring}`,
  )
}

function pinnedVersion(app: SourceTree, pipfile: unknown): Asked | null {
  const requires = fieldsOf(fieldsOf(pipfile)['requires'])
  const isFull = requires['python_full_version'] !== undefined
  return firstOf([
    ['.python-version', versionIn(app, '.python-version'), (version) => version],
    ['runtime.txt', versionIn(app, 'runtime.txt')?.replace(/^python-/, ''), (version) => `python-${version}`],
    ['.tool-versions', toolVersion(app, 'python'), (version) => `python ${version}`],
    [
      'Pipfile',
      requires['python_full_version'] ?? requires['python_version'],
      (version) => `${isFull ? 'python_full_version' : 'python_version'} = "${version}"`,
    ],
  ])
}

const PYPROJECT = 'pyproject.toml'

function requiredVersion(pyproject: unknown): Asked | null {
  const poetry = fieldsOf(fieldsOf(fieldsOf(fieldsOf(pyproject)['tool'])['poetry'])['dependencies'])['python']
  return firstOf([
    [
      PYPROJECT,
      fieldsOf(fieldsOf(pyproject)['project'])['requires-python'],
      (version) => `requires-python = ">=${version}"`,
    ],
    [PYPROJECT, poetry, (version) => `python = ">=${version}"`],
  ])
}

function firstOf(found: readonly (readonly [string, unknown, Asked['spell']])[]): Asked | null {
  for (const [from, text, spell] of found) {
    if (typeof text === 'string' && text.trim() !== '') return { text: text.trim(), from, spell }
  }
  return null
}

type Release = readonly [number, number, number]

/** Longer than ranges that people write. */
const longest = 200

/**
 * Returns a function that tells whether a Python version is allowed; null for a text that is not a range. Reads version
 * specifiers (PEP 440), a plain version as in `.python-version` (`3.11`, `cpython-3.11.4`) and Poetry's ranges
 * (`^3.10`, `~3.10`, `>=3.8 || ^3.12`, `*`).
 */
export function readRange(text: string): ((release: Release) => boolean) | null {
  if (text.length > longest) return null
  const alternatives = text
    .replace(/^(?:cpython|python)[-@ ]?/i, '')
    .replaceAll(/([<>=!~^])[ \t]+/g, '$1')
    .split('||')
    .map((part) => part.split(/[,\s]+(?=[<>=!~^\d*])/).filter((clause) => clause !== ''))
    .map((clauses) => clauses.map(readClause))
  if (alternatives.some((clauses) => clauses.length === 0 || clauses.includes(null))) return null
  return (release) => alternatives.some((clauses) => clauses.every((clause) => clause?.(release)))
}

function readClause(clause: string): ((release: Release) => boolean) | null {
  if (clause.trim() === '*') return () => true
  const [, operator = '', major, minor, patch, star] =
    /^\s*(===?|~=|!=|<=?|>=?|\^|~)?\s*v?(\d{1,4})(?:\.(\d{1,4}))?(?:\.(\d{1,4}))?(\.\*)?(?:[A-Za-z]+\d*|[-+][\w.-]*)?\s*$/.exec(
      clause,
    ) ?? []
  if (major === undefined) return null
  const given = [major, minor, patch].flatMap((part) => (part === undefined ? [] : [Number(part)]))
  const base: Release = [given[0] ?? 0, given[1] ?? 0, given[2] ?? 0]
  const matches = (release: Release) => given.every((part, index) => release[index] === part)
  switch (operator) {
    case '':
      // Distributions have one patch release of each version, so the third number does not count.
      return (release) => given.slice(0, 2).every((part, index) => release[index] === part)
    case '==':
    case '===':
      return matches
    case '!=':
      return star === undefined ? (release) => compare(release, base) !== 0 : (release) => !matches(release)
    case '>':
      return (release) => compare(release, base) > 0
    case '>=':
      return (release) => compare(release, base) >= 0
    case '<':
      return (release) => compare(release, base) < 0
    case '<=':
      // People who write <=3.12 mean all patch releases of 3.12.
      return (release) => compare(release, base) <= 0 || matches(release)
    case '^':
      return (release) => compare(release, base) >= 0 && release[0] === base[0]
    case '~':
      return (release) => compare(release, base) >= 0 && given.slice(0, 2).every((part, at) => release[at] === part)
    default:
      // ~=: at least, with the last number left open.
      return (release) => compare(release, base) >= 0 && given.slice(0, -1).every((part, at) => release[at] === part)
  }
}

/** Negative if `a` is the earlier version. */
function compare(a: Release, b: Release): number {
  return a[0] - b[0] || a[1] - b[1] || a[2] - b[2]
}
