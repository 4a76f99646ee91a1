import { parse, TomlError } from 'smol-toml'
import type { Command } from '../../platform/command.ts'
import { failed, type Result, unreadable } from '../source/result.ts'
import type { SourceTree } from '../source/tree.ts'
import type { Detector } from './detector.ts'

/** The files that run an app by convention. */
const MAINS = ['main.py', 'app.py']

/** Printed lines reach the log at once, although it is no terminal. */
const env = { PYTHONUNBUFFERED: '1' }

/** An app in Python, with a virtual environment in `.venv` of its folder. */
export const python: Detector = {
  name: 'python',
  recognises: 'a main.py or app.py',
  files: ['requirements.txt', 'pyproject.toml'],
  tools: [
    {
      program: 'python3',
      missing: {
        code: 'python_missing',
        message: 'This app needs Python, but the server has no python3: ask its operator for it.',
      },
    },
  ],
  caches: { PIP_CACHE_DIR: 'pip' },
  detect({ app }) {
    const main = MAINS.find((name) => app.has(name))
    if (main === undefined && !app.has('requirements.txt') && !app.has('pyproject.toml')) return null
    return {
      ok: true,
      value: {
        // The environment's `python`: its folder is on the PATH.
        start: main === undefined ? null : { argv: ['python', main], env },
        advice: 'Nothing says how the app starts: add a main.py, or a Procfile with a "web:" line.',
        uses: 'all',
        env,
        install: () => planInstall(app),
      },
    }
  },
}

function planInstall(app: SourceTree): Result<readonly { readonly command: Command }[]> {
  const read = readRequirements(app)
  if (!read.ok) return read
  const requirements = read.value
  // Without pip the environment needs less time, and a smaller installation of Python.
  const withoutPip = requirements === null ? ['--without-pip'] : []
  const venv: Command = { argv: ['python3', '-m', 'venv', ...withoutPip, '.venv'] }
  if (requirements === null) return { ok: true, value: [{ command: venv }] }
  const install: Command = {
    argv: ['.venv/bin/python', '-m', 'pip', 'install', '--no-input', ...requirements],
    env: { ...env, PIP_DISABLE_PIP_VERSION_CHECK: '1' },
  }
  return { ok: true, value: [{ command: venv }, { command: install }] }
}

/** Returns the words that tell pip what to install; null for nothing. */
function readRequirements(app: SourceTree): Result<readonly string[] | null> {
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
    // No package, only a list of dependencies: pip would take the app's folders for packages.
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
