import { parse, TomlError } from 'smol-toml'
import type { Command } from '../../runtimes/runtime.ts'
import { failed, type Result, unreadable } from './result.ts'
import type { SourceTree } from './tree.ts'

/** By convention the file that runs an app. */
const MAINS = ['main.py', 'app.py']

/** What is printed reaches the log at once, although it is no terminal. */
const env = { PYTHONUNBUFFERED: '1' }

export const pythonMain = (app: SourceTree): string | undefined => MAINS.find((name) => app.has(name))

export const isPython = (app: SourceTree): boolean =>
  app.has('requirements.txt') || app.has('pyproject.toml') || pythonMain(app) !== undefined

/** A virtual environment in `.venv` of the app's folder, filled with what the app asks for. */
export function planPythonBuild(app: SourceTree): Result<readonly Command[]> {
  const wanted = readWanted(app)
  if (!wanted.ok) return wanted
  const pip = wanted.value
  // Without pip it needs less time, and a smaller installation of Python.
  const venv: Command = { argv: ['python3', '-m', 'venv', ...(pip === null ? ['--without-pip'] : []), '.venv'] }
  if (pip === null) return { ok: true, value: [venv] }
  const install: Command = {
    argv: ['.venv/bin/python', '-m', 'pip', 'install', '--no-input', ...pip],
    env: { ...env, PIP_DISABLE_PIP_VERSION_CHECK: '1' },
  }
  return { ok: true, value: [venv, install] }
}

/** The environment's `python`: its folder is on the PATH. */
export const planPythonStart = (main: string): Command => ({ argv: ['python', main], env })

export const pythonEnvironment: NonNullable<Command['env']> = env

/** The words that tell pip what to install; `null` for nothing. */
function readWanted(app: SourceTree): Result<readonly string[] | null> {
  if (app.has('requirements.txt')) {
    const text = app.read('requirements.txt')
    if (text === undefined) return unreadable('requirements.txt')
    return { ok: true, value: /^\s*[^\s#]/m.test(text) ? ['-r', 'requirements.txt'] : null }
  }
  if (!app.has('pyproject.toml')) return { ok: true, value: null }
  const text = app.read('pyproject.toml')
  if (text === undefined) return unreadable('pyproject.toml')
  try {
    const { project, 'build-system': buildSystem } = parse(text.replace(/^\uFEFF/, ''))
    if (buildSystem !== undefined) return { ok: true, value: ['.'] }
    // No package, only a list of what it needs: pip would take its folders for packages.
    const listed = isTable(project) ? project['dependencies'] : undefined
    const dependencies = Array.isArray(listed) ? listed.filter((entry) => typeof entry === 'string') : []
    if (dependencies.some((entry) => entry.includes('\0'))) {
      return failed('invalid_pyproject', 'pyproject.toml has a NUL character in "project.dependencies".')
    }
    return { ok: true, value: dependencies.length === 0 ? null : ['--', ...dependencies] }
  } catch (error) {
    if (!(error instanceof TomlError)) throw error
    const message = `pyproject.toml is not valid TOML: see line ${error.line}, column ${error.column}.`
    return failed('invalid_pyproject', message)
  }
}

const isTable = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null
