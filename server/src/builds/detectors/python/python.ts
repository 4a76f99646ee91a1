import type { Command } from '../../../platform/command.ts'
import type { Fields } from '../../json.ts'
import { failed, type Result, unreadable } from '../../result.ts'
import { readToml } from '../../toml.ts'
import type { SourceTree } from '../../tree.ts'
import { type Detection, type Detector, shellLine, type Tool } from '../detector.ts'
import { env, type Installation, pip, planInstallation } from './packages.ts'
import { type PythonStart, planOwners, planStart } from './start.ts'
import { type ChosenPython, choosePython, EXTRA_PYTHONS, UV } from './versions.ts'

/** A module that can start is a sign, too. */
const SIGNS = [
  'requirements.txt',
  'pyproject.toml',
  'Pipfile',
  'uv.lock',
  'poetry.lock',
  'pdm.lock',
  'setup.py',
  'manage.py',
  'main.py',
  'app.py',
]

/** Modules below the top that may contain an application or refer to it. */
const MODULES = [
  'app',
  'main',
  'wsgi',
  'asgi',
  'application',
  'server',
  'run',
  'api',
  'index',
  'web',
  'factory',
  '__init__',
  'settings',
]

const FILES = [
  ...[
    'pyproject.toml',
    'Pipfile',
    'setup.py',
    'setup.cfg',
    '.python-version',
    'runtime.txt',
    '.tool-versions',
    '.flaskenv',
  ],
  ...['requirements*.txt', 'requirements*.in', 'requirements/*.txt', 'requirements/*.in'],
  ...['*.py', '*/manage.py', '*/settings/*.py', '*/*/settings/*.py'],
  ...MODULES.flatMap((name) => [`*/${name}.py`, `*/*/${name}.py`]),
]

const pythonTool = (program: string): Tool => ({
  program,
  missing: {
    code: 'python_missing',
    message: `This app needs Python, but the server has no ${program}: ask its operator for it (Debian: ${program}-venv).`,
  },
  packages: `${program}-venv`,
  version: { args: ['--version'], pattern: /^Python (\d+\.\d+\.\d+)/m },
  // Debian packages these modules separately.
  whole: { args: ['-c', 'import ensurepip, venv'], part: 'venv' },
})

/** The virtual environment is `.venv` in the app's folder. */
export const python: Detector = {
  name: 'python',
  recognises: 'a Python app: Django, Flask, FastAPI and others, or a main.py',
  files: FILES,
  tools: [
    pythonTool('python3'),
    ...EXTRA_PYTHONS.map((program) => ({ ...pythonTool(program), isExtra: true as const })),
    {
      program: UV,
      missing: { code: 'python_missing', message: 'This app needs a Python that uv brings, but the server has no uv.' },
      isExtra: true,
      version: { args: ['--version'], pattern: /^uv (\d+\.\d+\.\d+)/m },
    },
  ],
  caches: { PIP_CACHE_DIR: 'pip', UV_CACHE_DIR: 'uv', UV_PYTHON_CACHE_DIR: 'uv-python' },
  detect({ app, versions, settings }) {
    const isStarted = settings.start !== undefined || app.has('Procfile')
    const start = isStarted ? planOwners(app) : planStart(app)
    if (start.command === null && !SIGNS.some((name) => app.has(name))) return null
    const read = readTables(app)
    if (!read.ok) return read
    const installed = planInstallation(app, read.value.pyproject)
    if (!installed.ok) return installed
    const chosen = choosePython(app, read.value, versions)
    const notes = [...(chosen.ok ? chosen.value.notes : []), ...installed.value.notes, ...start.notes]
    const detection: Detection = {
      start: start.command,
      ...(start.advice === undefined ? {} : { advice: start.advice }),
      // Pages that Node builds are in the same folder.
      uses: ['node', 'python'],
      env,
      notes,
      programs: [chosen.ok ? chosen.value.program : 'python3'],
      install: () => (chosen.ok ? { ok: true, value: install(chosen.value, installed.value, start) } : chosen),
      build: start.build,
    }
    return { ok: true, value: detection }
  },
}

function install(
  { program, brought }: ChosenPython,
  { commands }: Installation,
  start: PythonStart,
): { readonly command: Command }[] {
  const all = [...commands, ...(start.adds.length === 0 ? [] : [pip(...start.adds)])]
  // Faster to create, and needs a smaller Python installation.
  const withoutPip = all.length === 0 ? ['--without-pip'] : []
  const venv: readonly Command[] =
    brought === undefined
      ? [{ argv: [program, '-m', 'venv', ...withoutPip, '.venv'] }]
      : [
          bringPython(brought),
          ...(all.length === 0 ? [] : [{ argv: ['.venv/bin/python', '-m', 'ensurepip'] } as const]),
        ]
  return [...venv, ...all].map((command) => ({ command }))
}

/**
 * Creates the environment with a Python that uv downloads into the app's folder: it belongs to the release, like
 * packages.
 */
const bringPython = (version: string): Command =>
  shellLine(
    `UV_PYTHON_PREFERENCE=only-managed UV_PYTHON_INSTALL_DIR="$PWD/.python" exec uv venv --no-project --python ${version} .venv`,
  )

/** Reads the TOML files. Errors end the plan, because an app without its packages would fail later. */
function readTables(app: SourceTree): Result<{ readonly pyproject: unknown; readonly pipfile: unknown }> {
  const pyproject = readTable(app, 'pyproject.toml', 'invalid_pyproject')
  if (!pyproject.ok) return pyproject
  const pipfile = readTable(app, 'Pipfile', 'invalid_pipfile')
  if (!pipfile.ok) return pipfile
  return { ok: true, value: { pyproject: pyproject.value, pipfile: pipfile.value } }
}

function readTable(app: SourceTree, name: string, code: string): Result<Fields> {
  if (!app.has(name)) return { ok: true, value: {} }
  const text = app.read(name)
  if (text === undefined) return unreadable(name)
  const read = readToml(name, text)
  return read.ok ? read : failed(code, read.message)
}
