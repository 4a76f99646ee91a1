import { fieldsOf } from '../../source/json.ts'
import { failed, quote, type Result } from '../../source/result.ts'
import type { SourceTree } from '../../source/tree.ts'
import { toolVersion, versionIn } from '../../source/version-files.ts'
import { compare, type Release, readRange } from './specifiers.ts'

/** A version that the repository asks for. */
interface Asked {
  /** Such as `3.11.4`, or a range `>=3.10,<4`. */
  readonly text: string
  readonly from: string
}

export interface ChosenPython {
  /** Makes the virtual environment. */
  readonly program: string
  readonly notes: readonly string[]
}

/** The programs of other versions than the machine's usual one. */
export const EXTRA_PYTHONS: readonly string[] = Array.from({ length: 12 }, (_, at) => `python3.${at + 8}`)

/**
 * Chooses the Python that the repository asks for, by the first of `.python-version`, `runtime.txt`, `.tool-versions`, the
 * Pipfile and `requires-python`: the machine's usual one where the range allows it, else the newest that it has.
 *
 * @param toml the parsed `pyproject.toml` and `Pipfile`
 * @param versions those of the machine's programs
 */
export function choosePython(
  app: SourceTree,
  toml: { readonly pyproject: unknown; readonly pipfile: unknown },
  versions: ReadonlyMap<string, string>,
): Result<ChosenPython> {
  const asked = askedVersion(app, toml)
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
  const allowed = there.filter(({ release }) => allows(release))
  const [newest] = allowed.toSorted((a, b) => compare(b.release, a.release))
  const chosen = allowed.find(({ program }) => program === 'python3') ?? newest
  const releases = there.map(({ release }) => release)
  if (chosen === undefined) return refuse(asked, releases, allows)
  const note = `Python ${chosen.release.join('.')} runs the app: ${asked.from} asks for ${asked.text}.`
  return { ok: true, value: { program: chosen.program, notes: [note] } }
}

function releaseOf(version: string | undefined): Release | undefined {
  const [, major, minor, patch] = /^(\d+)\.(\d+)\.(\d+)/.exec(version ?? '') ?? []
  return major === undefined ? undefined : [Number(major), Number(minor), Number(patch)]
}

function refuse({ text, from }: Asked, releases: readonly Release[], allows: (release: Release) => boolean) {
  const there = [...new Set(releases.map((release) => release.join('.')))].join(', ')
  // The last patch releases of a version are the likeliest to be allowed.
  const wanted = EXTRA_PYTHONS.findLast((_, at) => [0, 99].some((patch) => allows([3, at + 8, patch])))
  const install =
    wanted === undefined
      ? `Change ${from} to a version that the server has.`
      : `Ask the server's operator to install ${wanted} (Debian: ${wanted}-venv), or change ${from}.`
  return failed('unsupported_python', `${from} asks for Python ${quote(text)}, and the server has ${there}. ${install}`)
}

function askedVersion(
  app: SourceTree,
  { pyproject, pipfile }: { readonly pyproject: unknown; readonly pipfile: unknown },
): Asked | null {
  const requires = fieldsOf(fieldsOf(pipfile)['requires'])
  const poetry = fieldsOf(fieldsOf(fieldsOf(fieldsOf(pyproject)['tool'])['poetry'])['dependencies'])['python']
  const found: readonly (readonly [string, unknown])[] = [
    ['.python-version', versionIn(app, '.python-version')],
    ['runtime.txt', versionIn(app, 'runtime.txt')?.replace(/^python-/, '')],
    ['.tool-versions', toolVersion(app, 'python')],
    ['Pipfile', requires['python_full_version'] ?? requires['python_version']],
    ['pyproject.toml', fieldsOf(fieldsOf(pyproject)['project'])['requires-python'] ?? poetry],
  ]
  for (const [from, text] of found) {
    if (typeof text === 'string' && text.trim() !== '') return { text: text.trim(), from }
  }
  return null
}
