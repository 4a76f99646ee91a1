import type { Command } from '../../../platform/command.ts'
import { pythonLockName } from '../../../platform/toolchain.ts'
import { fieldsOf } from '../../source/json.ts'
import { failed, type Result, unreadable } from '../../source/result.ts'
import type { SourceTree } from '../../source/tree.ts'
import { REQUIREMENTS } from './packages.ts'

/** Printed lines reach the log at once, although it is no terminal. */
export const env = { PYTHONUNBUFFERED: '1' }

/** Lock files in the order in which they count, and the files that describe what they lock. */
const LOCKS = ['uv.lock', 'poetry.lock', 'pdm.lock', 'Pipfile.lock']

/** How the packages of an app are installed. */
export interface Installation {
  /** For people: `uv.lock`; null where there is nothing to install. */
  readonly from: string | null
  readonly commands: readonly Command[]
  readonly notes: readonly string[]
}

/** Plans what is installed into the app's environment, by the first of the files that name packages. */
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
  // No package, only a list of dependencies: pip would take the app's folders for packages.
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
