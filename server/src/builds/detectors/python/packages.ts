import type { Command } from '../../../platform/command.ts'
import { pythonLockName } from '../../../platform/toolchain.ts'
import { fieldsOf } from '../../json.ts'
import { failed, type Result, unreadable } from '../../result.ts'
import { readToml } from '../../toml.ts'
import type { SourceTree } from '../../tree.ts'

const LISTS = ['pyproject.toml', 'Pipfile', 'setup.py', 'setup.cfg']

/** Lists in a `requirements` folder, the production list first. */
const REQUIREMENTS = [
  'requirements.txt',
  'requirements/production.txt',
  'requirements/prod.txt',
  'requirements/base.txt',
]

/**
 * Returns the names of the required packages, normalised by PEP 503, each once plain and once with every extra:
 * `fastapi`, `fastapi[standard]`. Reads only hand-written files, not packages that only a lock file names.
 */
export function packagesOf(app: SourceTree): ReadonlySet<string> {
  const found = new Set<string>()
  const add = (text: string): void => {
    const [, name, extras = ''] = /^\s*([A-Za-z0-9][\w.-]*)\s*(?:\[([\w.,\s-]*)\])?/.exec(text) ?? []
    if (name === undefined) return
    found.add(normal(name))
    for (const extra of extras.split(','))
      if (extra.trim() !== '') found.add(`${normal(name)}[${normal(extra.trim())}]`)
  }
  const inFolder = app.list('requirements').map((name) => `requirements/${name}`)
  for (const path of [...app.list('.'), ...inFolder]) {
    if (!isRequirements(path)) continue
    for (const line of (app.read(path) ?? '').split('\n')) add(line)
  }
  for (const file of LISTS) {
    const text = app.has(file) ? app.read(file) : undefined
    if (text === undefined) continue
    if (file.startsWith('setup.')) {
      for (const [, quoted, bare] of text.matchAll(/["']([A-Za-z][^"'\n]{0,200})["']|^[ \t]+([A-Za-z][\w.[\]-]*)/gm)) {
        add(quoted ?? bare ?? '')
      }
    } else for (const entry of listedIn(file, text)) add(entry)
  }
  return found
}

const isRequirements = (path: string): boolean =>
  /^(?:requirements[\w.-]*\.(?:txt|in)|requirements\/[\w.-]+\.(?:txt|in))$/.test(path)

const normal = (name: string): string => name.toLowerCase().replaceAll(/[-_.]+/g, '-')

/** Returns the package entries of a pyproject.toml or Pipfile; empty for a faulty file. */
function listedIn(file: string, toml: string): readonly string[] {
  const read = readToml(file, toml)
  const root = read.ok ? read.value : {}
  const project = fieldsOf(root['project'])
  const poetry = fieldsOf(fieldsOf(root['tool'])['poetry'])
  const tables = [root['packages'], poetry['dependencies']].map(fieldsOf)
  return [
    ...(Array.isArray(project['dependencies']) ? project['dependencies'] : []).filter(
      (each) => typeof each === 'string',
    ),
    ...tables.flatMap((table) =>
      Object.entries(table).map(([name, value]) => {
        const extras: unknown = fieldsOf(value)['extras']
        return Array.isArray(extras) ? `${name}[${extras.join(',')}]` : name
      }),
    ),
  ]
}

/** Printed lines reach the log immediately, although the output is not a terminal. */
export const env = { PYTHONUNBUFFERED: '1' }

/** Lock files in order of precedence. */
const LOCKS = ['uv.lock', 'poetry.lock', 'pdm.lock', 'Pipfile.lock']

export interface Installation {
  /** The file name for people, such as `uv.lock`; null when there is nothing to install. */
  readonly from: string | null
  readonly commands: readonly Command[]
  readonly notes: readonly string[]
}

export function planInstallation(app: SourceTree, pyproject: unknown): Result<Installation> {
  const lock = LOCKS.find((name) => app.has(name))
  const requirements = REQUIREMENTS.find((path) => app.has(path))
  if (lock !== undefined) {
    const notes =
      requirements === undefined ? [] : [`The packages are installed from ${lock}; ${requirements} is not read.`]
    return installation(lock, [{ argv: [pythonLockName, lock], env: pipEnv }], notes)
  }
  if (requirements !== undefined) {
    const text = app.read(requirements)
    if (text === undefined) return unreadable(requirements)
    if (/^[ \t]*[^\s#]/m.test(text)) return installation(requirements, [pip('-r', requirements)])
    if (requirements === 'requirements.txt') return installation(null, [])
  }
  if (app.has('pyproject.toml')) return installProject(pyproject)
  if (app.has('Pipfile')) return installation('Pipfile', [{ argv: [pythonLockName, 'Pipfile'], env: pipEnv }])
  if (app.has('setup.py')) return installation('setup.py', [pip('.')])
  return installation(null, [])
}

function installProject(pyproject: unknown): Result<Installation> {
  const { project, 'build-system': buildSystem, tool } = fieldsOf(pyproject)
  const listed = fieldsOf(project)['dependencies']
  const isPoetry = fieldsOf(tool)['poetry'] !== undefined && listed === undefined
  if (isPoetry) return installation('pyproject.toml', [{ argv: [pythonLockName, 'pyproject.toml'], env: pipEnv }])
  if (buildSystem !== undefined) return installation('pyproject.toml', [pip('.')])
  // Only the dependencies: pip would treat the app's folders as packages.
  const dependencies = Array.isArray(listed) ? listed.filter((entry) => typeof entry === 'string') : []
  if (dependencies.some((entry) => entry.includes('\0'))) {
    return failed('invalid_pyproject', 'pyproject.toml has a NUL character in "project.dependencies".')
  }
  return dependencies.length === 0
    ? installation(null, [])
    : installation('pyproject.toml', [pip('--', ...dependencies)])
}

const pipEnv = { ...env, PIP_DISABLE_PIP_VERSION_CHECK: '1' }

export const pip = (...words: readonly string[]): Command => ({
  argv: ['.venv/bin/python', '-m', 'pip', 'install', '--no-input', ...words],
  env: pipEnv,
})

const installation = (
  from: string | null,
  commands: readonly Command[],
  notes: readonly string[] = [],
): Result<Installation> => ({ ok: true, value: { from, commands, notes } })
